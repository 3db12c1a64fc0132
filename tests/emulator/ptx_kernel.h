// SPDX-License-Identifier: BSD-3-Clause
// Little kernels for the emulator's tests: PTX text around a body, run on one call.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/emulator.h"

namespace fa4::emulator::test {

/// A module with one entry "k" that takes `params` 64-bit parameters p0, p1 ...
std::string module_of(const std::string& body, int params = 1, const std::string& globals = "");

/// Runs are held against all rules (judge/rules.h), and a warning is an error too, but not while
/// one of these lives: for kernels that do wrong on purpose. Runs whose options ask for checks get
/// those.
class Unjudged {
 public:
  Unjudged();
  ~Unjudged();
  Unjudged(const Unjudged&) = delete;
  Unjudged& operator=(const Unjudged&) = delete;
};

/// What a run of `body` does: parameter i is the address of buffers[i], which the kernel may
/// change. Gives the error's message, empty if there was none.
struct Ran {
  std::string error;
  Tally tally;
};
Ran run_body(const std::string& body, std::vector<std::vector<uint32_t>>& buffers,
             const LaunchConfig& config = {.threads = {32, 1, 1}}, const RunOptions& options = {},
             const std::string& globals = "");
Ran run_module(const std::string& ptx, const std::string& entry,
               std::vector<std::vector<uint32_t>>& buffers, const LaunchConfig& config,
               const RunOptions& options = {});

/// One instruction on one lane's values. In `text`, a, b, c are 32-bit sources, d the 32-bit
/// result, A, B, C, D the 64-bit ones, h, i, j, k 16-bit: sources and result k; p a predicate that
/// holds and q a result predicate. Returns D if `text` names it, k, or d; 1 or 0 if it sets q.
uint64_t evaluate(const std::string& text, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0);

/// PTX lines: the operands A, B, C from where P points, and their lower parts a, b, c and h, i, j.
extern const char* const kLoadOperands;
extern const char* const kPartsOfOperands;

/// The section that $name0, $name1 and $name2 of a .loc are in: "fa4::produce()" and "consume()" as
/// compilers write them, and "helper".
extern const char* const kFunctionNames;

/// The message of loading such a body; empty if it loads.
std::string load_error(const std::string& body, int params = 1);

}  // namespace fa4::emulator::test
