// SPDX-License-Identifier: BSD-3-Clause
// Every way a problem (shapes, dtypes, options) can be wrong, one at a time.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/codes.h"
#include "support/bad_input.h"

namespace fa4::test {
namespace {

constexpr auto kOutOfMemory = StatusCode::kOutOfMemory;
const double kNaN = std::nan("");
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(ValidateProblem, RefusesWrongOperands) {
  const std::vector<BadInput> table = {
      {"no q", [](Call& c) { c.t.q = {}; }, kInvalid, {"q: ", "absent"}},
      {"no k", [](Call& c) { c.t.k = {}; }, kInvalid, {"k: ", "absent"}},
      {"no v", [](Call& c) { c.t.v = {}; }, kInvalid, {"v: ", "absent"}},
      {"q of rank 2", [](Call& c) { c.t.q.rank = 2; }, kInvalid, {"q: ", "rank is 2"}},
      {"q of rank 7", [](Call& c) { c.t.q.rank = 7; }, kInvalid, {"q: ", "rank is 7"}},
      {"q of rank -1", [](Call& c) { c.t.q.rank = -1; }, kInvalid, {"q: ", "rank is -1"}},
      {"v packed, k dense", [](Call& c) { c.t.v.rank = 3; }, kInvalid, {"v: ", "rank is 3"}},
      {"q of int32", [](Call& c) { c.t.q.dtype = DType::kInt32; }, kInvalid, {"q: ", "int32"}},
      {"k of bool", [](Call& c) { c.t.k.dtype = DType::kBool; }, kInvalid, {"k: ", "bool"}},
      {"an unknown dtype",
       [](Call& c) { c.t.q.dtype = static_cast<DType>(99); },
       kInvalid,
       {"q: ", "unknown"}},
      {"k of another dtype",
       [](Call& c) { c.t.k.dtype = DType::kBFloat16; },
       kInvalid,
       {"q, k, v: ", "float32, bfloat16, float32"}},
      {"v of another dtype",
       [](Call& c) { c.t.v.dtype = DType::kFloat16; },
       kInvalid,
       {"q, k, v: ", "float32, float32, float16"}},
      {"negative rows", [](Call& c) { c.t.q.dims[1] = -5; }, kInvalid, {"q: ", "-5"}},
      {"negative batch", [](Call& c) { c.t.k.dims[0] = -2; }, kInvalid, {"k: ", "-2"}},
      {"no query heads", [](Call& c) { c.t.q.dims[2] = 0; }, kInvalid, {"q: ", "0 heads"}},
      {"no key heads", [](Call& c) { c.t.k.dims[2] = 0; }, kInvalid, {"k: ", "0 heads"}},
      {"head_dim 0", [](Call& c) { c.t.v.dims[3] = 0; }, kInvalid, {"v: ", "head_dim is 0"}},
      {"head_dim 257",
       [](Call& c) { c.t.q.dims[3] = 257; },
       kUnsupported,
       {"q: ", "257", "supported: 1 to 256"}},
      {"value head_dim 512", [](Call& c) { c.t.v.dims[3] = 512; }, kUnsupported, {"v: ", "512"}},
      {"head_dims that differ",
       [](Call& c) { c.t.k.dims[3] = 4; },
       kInvalid,
       {"k: ", "head_dim is 4", "8"}},
      {"batches that differ",
       [](Call& c) { c.t.k.dims[0] = c.t.v.dims[0] = 3; },
       kInvalid,
       {"k: ", "3 sequences", "2"}},
      {"v with fewer rows than k",
       [](Call& c) { c.t.v.dims[1] = 4; },
       kInvalid,
       {"v: ", "[2, 4, 2, 4]", "[2, 6, 2, 8]"}},
      {"v with other heads", [](Call& c) { c.t.v.dims[2] = 1; }, kInvalid, {"v: ", "[2, 6, 1, 4]"}},
      {"4 heads over 3",
       [](Call& c) { c.t.k.dims[2] = c.t.v.dims[2] = 3; },
       kInvalid,
       {"q: ", "4 heads over 3"}},
      {"fewer query heads than key heads",
       [](Call& c) { c.t.q.dims[2] = 1; },
       kInvalid,
       {"q: ", "1 heads over 2"}},
      {"more bytes than 64 bits",
       [](Call& c) {
         c.t.q.dims = {int64_t{1} << 40, int64_t{1} << 20, 4, 8};
       },
       kOutOfMemory,
       {"q: ", "1099511627776"}},
      {"more bytes than 64 bits, but no rows",
       [](Call& c) {
         c.t.k.dims = {int64_t{1} << 60, 0, 2, 8};
       },
       kOutOfMemory,
       {"k: ", "1152921504606846976"}},
  };
  expect_refusals(table, dense_call, run_forward);
}

TEST(ValidateProblem, RefusesWrongOptions) {
  const std::vector<BadInput> table = {
      {"scale NaN", [](Call& c) { c.o.scale = kNaN; }, kInvalid, {"scale: ", "nan"}},
      {"scale infinite", [](Call& c) { c.o.scale = -kInf; }, kInvalid, {"scale: ", "-inf"}},
      {"causal 7",
       [](Call& c) { c.o.causal = static_cast<Causal>(7); },
       kInvalid,
       {"causal: ", "7", "top_left"}},
      {"causal -1",
       [](Call& c) { c.o.causal = static_cast<Causal>(-1); },
       kInvalid,
       {"causal: ", "-1"}},
      {"window left -1",
       [](Call& c) { c.o.window.left = -1; },
       kInvalid,
       {"window left: ", "-1", "absent"}},
      {"window right -3",
       [](Call& c) { c.o.window.right = -3; },
       kInvalid,
       {"window right: ", "-3"}},
      {"softcap -1", [](Call& c) { c.o.softcap = -1; }, kInvalid, {"softcap: ", "-1"}},
      {"softcap NaN", [](Call& c) { c.o.softcap = kNaN; }, kInvalid, {"softcap: ", "nan"}},
      {"softcap infinite", [](Call& c) { c.o.softcap = kInf; }, kInvalid, {"softcap: ", "inf"}},
      {"dropout_p 1", [](Call& c) { c.o.dropout_p = 1; }, kInvalid, {"dropout_p: ", "is 1"}},
      {"dropout_p below 0",
       [](Call& c) { c.o.dropout_p = -0.1; },
       kInvalid,
       {"dropout_p: ", "-0.1"}},
      {"dropout_p NaN", [](Call& c) { c.o.dropout_p = kNaN; }, kInvalid, {"dropout_p: ", "nan"}},
      {"batch_invariant with dropout",
       [](Call& c) {
         c.o.batch_invariant = true;
         c.o.dropout_p = 0.5;
       },
       kInvalid,
       {"batch_invariant: ", "dropout_p 0.5"}},
      {"threads -1", [](Call& c) { c.o.threads = -1; }, kInvalid, {"threads: ", "-1"}},
      {"max_seqlen_q -1",
       [](Call& c) { c.o.max_seqlen_q = -1; },
       kInvalid,
       {"max_seqlen_q: ", "-1"}},
      {"max_seqlen_k -2",
       [](Call& c) { c.o.max_seqlen_k = -2; },
       kInvalid,
       {"max_seqlen_k: ", "-2"}},
  };
  expect_refusals(table, dense_call, run_forward);
}

TEST(ValidateProblem, RefusesWrongExtras) {
  const std::vector<BadInput> table = {
      {"bias of rank 3", [](Call& c) { c.t.bias.rank = 3; }, kInvalid, {"bias: ", "[2, 4, 5]"}},
      {"bias of rank 9", [](Call& c) { c.t.bias.rank = 9; }, kInvalid, {"bias: ", "rank 9"}},
      {"bias of int64",
       [](Call& c) { c.t.bias.dtype = DType::kInt64; },
       kInvalid,
       {"bias: ", "int64"}},
      {"bias too narrow",
       [](Call& c) { c.t.bias.dims[3] = 5; },
       kInvalid,
       {"bias: ", "[2, 4, 5, 5]", "[2, 4, 5, 6]"}},
      {"bias with a negative dim", [](Call& c) { c.t.bias.dims[2] = -1; }, kInvalid, {"bias: "}},
      {"bias with 2 heads",
       [](Call& c) { c.t.bias.dims[1] = 2; },
       kInvalid,
       {"bias: ", "[2, 2, 5, 6]"}},
      {"mask of float32",
       [](Call& c) { c.t.mask.dtype = DType::kFloat32; },
       kInvalid,
       {"mask: ", "float32", "bool"}},
      {"mask of another batch",
       [](Call& c) { c.t.mask.dims[0] = 3; },
       kInvalid,
       {"mask: ", "[3, 1, 5, 6]"}},
      {"mask of rank 1", [](Call& c) { c.t.mask.rank = 1; }, kInvalid, {"mask: ", "[2]"}},
      {"slopes of float64",
       [](Call& c) { c.t.alibi_slopes.dtype = DType::kFloat64; },
       kInvalid,
       {"alibi_slopes: ", "float64"}},
      {"slopes of key heads",
       [](Call& c) { c.t.alibi_slopes.dims[0] = 2; },
       kInvalid,
       {"alibi_slopes: ", "[2]", "[4] or [2, 4]"}},
      {"slopes of another batch",
       [](Call& c) {
         c.t.alibi_slopes.rank = 2;
         c.t.alibi_slopes.dims = {3, 4};
       },
       kInvalid,
       {"alibi_slopes: ", "[3, 4]"}},
      {"slopes of rank 12",
       [](Call& c) { c.t.alibi_slopes.rank = 12; },
       kInvalid,
       {"alibi_slopes: ", "rank 12"}},
      {"sink of key heads",
       [](Call& c) { c.t.sink.dims[0] = 2; },
       kInvalid,
       {"sink: ", "[2]", "[4]"}},
      {"sink of int32",
       [](Call& c) { c.t.sink.dtype = DType::kInt32; },
       kInvalid,
       {"sink: ", "int32"}},
      {"sink of rank 2",
       [](Call& c) {
         c.t.sink.rank = 2;
         c.t.sink.dims = {4, 1};
       },
       kInvalid,
       {"sink: ", "[4, 1]"}},
      {"seqused_q of float32",
       [](Call& c) { c.t.seqused_q.dtype = DType::kFloat32; },
       kInvalid,
       {"seqused_q: ", "float32", "int32, int64"}},
      {"seqused_k of 3 entries",
       [](Call& c) { c.t.seqused_k.dims[0] = 3; },
       kInvalid,
       {"seqused_k: ", "[3]", "[2]"}},
      {"start_q of bool",
       [](Call& c) { c.t.start_q.dtype = DType::kBool; },
       kInvalid,
       {"start_q: ", "bool"}},
      {"start_k of rank 5",
       [](Call& c) { c.t.start_k.rank = 5; },
       kInvalid,
       {"start_k: ", "rank 5"}},
      {"cu_seqlens for dense q",
       [](Call& c) { c.t.cu_seqlens_q = c.t.seqused_q; },
       kInvalid,
       {"cu_seqlens_q: ", "dense"}},
  };
  expect_refusals(table, dense_call, run_forward);
}

TEST(ValidateProblem, RefusesWrongPacking) {
  const std::vector<BadInput> table = {
      {"packed without cu_seqlens_q",
       [](Call& c) { c.t.cu_seqlens_q = {}; },
       kInvalid,
       {"cu_seqlens_q: absent"}},
      {"packed without cu_seqlens_k",
       [](Call& c) { c.t.cu_seqlens_k = {}; },
       kInvalid,
       {"cu_seqlens_k: absent"}},
      {"cu_seqlens of float32",
       [](Call& c) { c.t.cu_seqlens_q.dtype = DType::kFloat32; },
       kInvalid,
       {"cu_seqlens_q: ", "float32", "int32, int64"}},
      {"cu_seqlens of rank 2",
       [](Call& c) { c.t.cu_seqlens_q.rank = 2; },
       kInvalid,
       {"cu_seqlens_q: ", "[3, 0]"}},
      {"empty cu_seqlens",
       [](Call& c) { c.t.cu_seqlens_k.dims[0] = 0; },
       kInvalid,
       {"cu_seqlens_k: ", "[0]"}},
      {"cu_seqlens of different counts",
       [](Call& c) { c.t.cu_seqlens_k.dims[0] = 2; },
       kInvalid,
       {"cu_seqlens_k: is [2], so 1 sequences", "q has 2", "[batch + 1] = [3]"}},
  };
  expect_refusals(table, packed_call, run_forward);
}

TEST(ValidateProblem, RefusesGradientsWithoutTheirInput) {
  const std::vector<BadInput> table = {
      {"dbias without bias", [](Call& c) { c.t.bias = {}; }, kInvalid, {"dbias: ", "bias"}},
      {"dsink without sink", [](Call& c) { c.t.sink = {}; }, kInvalid, {"dsink: ", "sink"}},
  };
  expect_refusals(table, dense_call, run_backward);
}

TEST(ValidateProblem, SupportsSaysWhyNot) {
  const Call call = dense_call();
  AttentionProblem problem = AttentionProblem::forward(call.t, call.o);
  problem.q.dims[3] = 0;
  const Support malformed = supports(problem);
  EXPECT_FALSE(malformed);
  EXPECT_NE(malformed.reason.find("head_dim is 0"), std::string::npos) << malformed.reason;

  problem = AttentionProblem::forward(call.t, call.o);
  const Support elsewhere = supports(problem, Device::cuda(1));
  EXPECT_FALSE(elsewhere);
  EXPECT_NE(elsewhere.reason.find("cuda:1"), std::string::npos) << elsewhere.reason;
  EXPECT_FALSE(Plan::make(problem, Device::cuda(1)).ok());
  EXPECT_EQ(Plan::make(problem, Device::cuda(1)).status().code(), kUnsupported);
}

}  // namespace
}  // namespace fa4::test
