// SPDX-License-Identifier: BSD-3-Clause
// NumPy's .npy files, versions 1 to 3.
//
// Read: <f4 <f8 <f2 <i4 <i8 |b1, up to four dims, both memory orders (Fortran order is turned into
// C order). NumPy has no bfloat16: with `bfloat16`, files of <u2 or of the two-byte void type that
// ml_dtypes writes are taken as its bits. Written: the same types in version 1, bfloat16 as <u2.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <fa4/status.h>

#include <iosfwd>
#include <string>

#include "cli/array.h"

namespace fa4::cli {

/// Reads an array. Memory is asked for only after the stream has been found to hold the data.
/// Errors: kInvalidArgument, with what is wrong with the file.
Result<Array> read_npy(std::istream& in, bool bfloat16 = false);
/// The same from a file; messages begin with its name.
Result<Array> read_npy_file(const std::string& path, bool bfloat16 = false);

Status write_npy(std::ostream& out, const Array& array);
Status write_npy_file(const std::string& path, const Array& array);

}  // namespace fa4::cli
