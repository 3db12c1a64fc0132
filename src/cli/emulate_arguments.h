// SPDX-License-Identifier: BSD-3-Clause
// A kernel's arguments as words of a command line.
//
//   u32:5  s64:-1  f32:1.5  bf16:2    a number
//   in:FILE.npy                       address of the file's array, which may be read
//   io:FILE.npy:FILE.npy              the same, may be written too, and goes to the second file
//   out:FILE.npy:f32:128,64           address of a new array that goes to the file
//   zeros:f32:128,64                  address of a new array of zeros
//   map:0:64,128:128                  tensor map of argument 0, by boxes of 64 x 128 (innermost
//                                     first), swizzled by 128 bytes (or none, 32, 64)
//   bytes:FILE                        what the file holds, aligned to 64 bytes
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/array.h"
#include "emulator/emulator.h"

namespace fa4::cli {

/// The arguments' memory and the bytes that the kernel gets. Made anew for each run.
class EmulateArguments {
 public:
  /// Reads files. Throws UsageError: which argument, what it was, what is allowed; and Error for a
  /// file that can't be read.
  explicit EmulateArguments(const std::vector<std::string>& words);

  const std::vector<std::byte>& parameters() const { return parameters_; }
  emulator::MemoryMap memory() const;
  /// The bytes of all arrays that may be written.
  std::string results() const;
  /// Writes the files of io: and out:. What was written, a line each. Throws Error.
  std::vector<std::string> write() const;

 private:
  struct Memory {
    Array array;
    std::string file;  ///< Where it goes; empty: nowhere.
    bool writable = true;
  };

  void add(size_t number, const std::string& word);
  void add_number(const std::string& type, const std::string& value);
  void add_array(Array array, std::string file, bool writable);
  void add_map(const std::vector<std::string>& parts);
  void add_bytes(const void* data, size_t bytes, size_t align);

  std::vector<Memory> memory_;
  std::vector<int> memory_of_argument_;  ///< Or -1.
  std::vector<std::byte> parameters_;
};

}  // namespace fa4::cli
