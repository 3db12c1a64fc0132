// SPDX-License-Identifier: BSD-3-Clause
// Numbers as the oracle reads, rounds and draws them.
#pragma once

#include <fa4/types.h>

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace fa4::oracle {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The element that lies `offset` elements after the first, as double.
double read_element(const Tensor& tensor, int64_t offset);

/// Every element of a tensor, in row-major order of its dims; none if it is absent.
std::vector<double> read(const Tensor& tensor);

/// The nearest number that `dtype` can hold, ties to even; infinity if that is too large.
double round_to(DType dtype, double x);

/// The same, but nothing is too large.
double round_unbounded(DType dtype, double x);

/// Philox4x32-10 (Salmon et al., SC11), the generator behind dropout.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace fa4::oracle
