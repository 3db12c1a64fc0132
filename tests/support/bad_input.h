// SPDX-License-Identifier: BSD-3-Clause
// Calls with one wrong argument: the tables of the validation tests are lists of these.
#pragma once

#include <fa4/attention.h>

#include <functional>
#include <string>
#include <vector>

#include "support/case.h"

namespace fa4::test {

/// A legal call, as views that a test may spoil. The tensors live in `owner`.
struct Call {
  Case owner;
  AttentionTensors t;
  AttentionGradients g;
  AttentionOptions o;
};

/// One wrong argument.
struct BadInput {
  std::string what;  ///< "q of rank 2"
  std::function<void(Call&)> spoil;
  StatusCode code;
  std::vector<std::string> message_has;  ///< The first must begin the message.
};

/// Every tensor of the contract, float32: batch 2, s_q 5, s_k 6, heads 4 and 2, d 8 and 4.
Call dense_call();
/// Sequences of 3 + 2 query rows and 2 + 4 key rows, with a row of slack; the rest as above.
Call packed_call();

/// Spoils a fresh call for each row of the table and expects the code, the message and untouched
/// outputs. Messages must name the argument and what is allowed, and differ from one another.
void expect_refusals(const std::vector<BadInput>& table, Call (*make)(),
                     const std::function<Status(const Call&)>& run);

Status run_forward(const Call& call);
Status run_backward(const Call& call);

}  // namespace fa4::test
