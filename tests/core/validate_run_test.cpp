// SPDX-License-Identifier: BSD-3-Clause
// Every way the tensors of a run (pointers, strides, devices, lengths) can be wrong, one at a time.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "core/codes.h"
#include "support/bad_input.h"

namespace fa4::test {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

/// Whether the backend can do the whole call; without it a run can't be refused for its tensors.
bool can_run(const AttentionProblem& problem) { return supports(problem).supported; }
bool can_run_forward() {
  const Call dense = dense_call(), packed = packed_call();
  return can_run(AttentionProblem::forward(dense.t, dense.o)) &&
         can_run(AttentionProblem::forward(packed.t, packed.o));
}
bool can_run_backward() {
  const Call call = dense_call();
  return can_run(AttentionProblem::backward(call.t, call.g, call.o));
}

#define NEEDS(condition) \
  if (!(condition)) GTEST_SKIP() << "the CPU backend can't do this call yet"

TEST(ValidateRun, AcceptsTheLegalCalls) {
  NEEDS(can_run_forward());
  for (auto make : {dense_call, packed_call}) {
    const Call call = make();
    EXPECT_EQ(run_forward(call).message(), "");
  }
  NEEDS(can_run_backward());
  for (auto make : {dense_call, packed_call}) {
    const Call call = make();
    ASSERT_TRUE(run_forward(call).ok());
    EXPECT_EQ(run_backward(call).message(), "");
  }
}

BadInput null_data(const std::string& name, Tensor AttentionTensors::*tensor) {
  return {name + " without data",
          [=](Call& c) { (c.t.*tensor).data = nullptr; },
          kInvalid,
          {name + ": data is null"}};
}

TEST(ValidateRun, RefusesNullData) {
  NEEDS(can_run_forward());
  using T = AttentionTensors;
  expect_refusals({null_data("q", &T::q), null_data("k", &T::k), null_data("v", &T::v),
                   null_data("out", &T::out), null_data("lse", &T::lse),
                   null_data("bias", &T::bias), null_data("mask", &T::mask),
                   null_data("alibi_slopes", &T::alibi_slopes), null_data("sink", &T::sink),
                   null_data("seqused_q", &T::seqused_q), null_data("seqused_k", &T::seqused_k),
                   null_data("start_q", &T::start_q), null_data("start_k", &T::start_k)},
                  dense_call, run_forward);
  expect_refusals(
      {null_data("cu_seqlens_q", &T::cu_seqlens_q), null_data("cu_seqlens_k", &T::cu_seqlens_k)},
      packed_call, run_forward);
}

BadInput between_elements(const std::string& name, Tensor AttentionTensors::*tensor) {
  return {name + " between its elements",
          [=](Call& c) {
            Tensor& t = c.t.*tensor;
            t.data = static_cast<std::byte*>(t.data) + 1;
          },
          kInvalid,
          {name + ": data lies 1 bytes past a multiple of"}};
}

TEST(ValidateRun, RefusesAddressesBetweenElements) {
  NEEDS(can_run_forward());
  using T = AttentionTensors;
  expect_refusals(
      {between_elements("q", &T::q), between_elements("k", &T::k), between_elements("v", &T::v),
       between_elements("out", &T::out), between_elements("lse", &T::lse),
       between_elements("bias", &T::bias), between_elements("alibi_slopes", &T::alibi_slopes),
       between_elements("sink", &T::sink), between_elements("seqused_q", &T::seqused_q),
       between_elements("start_k", &T::start_k)},
      dense_call, run_forward);
  expect_refusals({between_elements("cu_seqlens_q", &T::cu_seqlens_q)}, packed_call, run_forward);
}

TEST(ValidateRun, RefusesIllegalStrides) {
  NEEDS(can_run_forward());
  const std::vector<BadInput> table = {
      {"negative stride of q",
       [](Call& c) { c.t.q.strides[1] = -32; },
       kInvalid,
       {"q: ", "stride 1 is -32"}},
      {"negative last stride of v",
       [](Call& c) { c.t.v.strides[3] = -1; },
       kInvalid,
       {"v: ", "stride 3 is -1"}},
      {"negative stride of the mask",
       [](Call& c) { c.t.mask.strides[0] = -1; },
       kInvalid,
       {"mask: ", "stride 0 is -1"}},
      {"negative stride of seqused",
       [](Call& c) { c.t.seqused_q.strides[0] = -1; },
       kInvalid,
       {"seqused_q: ", "stride 0 is -1"}},
      {"negative stride of out",
       [](Call& c) { c.t.out.strides[2] = -4; },
       kInvalid,
       {"out: ", "stride 2 is -4"}},
      {"a stride that overflows",
       [](Call& c) { c.t.k.strides[1] = kMax / 2; },
       kInvalid,
       {"k: ", "stride 1"}},
      {"strides that overflow together",
       [](Call& c) {
         c.t.q.strides = {kMax - 10, 5, 8, 1};
       },
       kInvalid,
       {"q: ", "stride 1 is 5"}},
      {"an offset that overflows in bytes",
       [](Call& c) { c.t.bias.strides[0] = kMax / 2; },
       kInvalid,
       {"bias: ", "64 bits"}},
      {"broadcast out",
       [](Call& c) { c.t.out.strides[1] = 0; },
       kInvalid,
       {"out: ", "stride 1 is 0", "written"}},
      {"broadcast lse",
       [](Call& c) { c.t.lse.strides[0] = 0; },
       kInvalid,
       {"lse: ", "stride 0 is 0", "written"}},
  };
  expect_refusals(table, dense_call, run_forward);
}

TEST(ValidateRun, RefusesWrongOutputs) {
  NEEDS(can_run_forward());
  const std::vector<BadInput> table = {
      {"no out", [](Call& c) { c.t.out = {}; }, kInvalid, {"out: absent", "[2, 5, 4, 4]"}},
      {"out of another dtype",
       [](Call& c) { c.t.out.dtype = DType::kBFloat16; },
       kInvalid,
       {"out: ", "bfloat16"}},
      {"out with q's head_dim",
       [](Call& c) { c.t.out.dims[3] = 8; },
       kInvalid,
       {"out: ", "[2, 5, 4, 8]"}},
      {"out of rank 3", [](Call& c) { c.t.out.rank = 3; }, kInvalid, {"out: ", "[2, 5, 4]"}},
      {"out of rank 8", [](Call& c) { c.t.out.rank = 8; }, kInvalid, {"out: ", "rank 8"}},
      {"lse as [b, s, h]",
       [](Call& c) { std::swap(c.t.lse.dims[1], c.t.lse.dims[2]); },
       kInvalid,
       {"lse: ", "[2, 5, 4]", "[2, 4, 5]"}},
      {"lse of float64",
       [](Call& c) { c.t.lse.dtype = DType::kFloat64; },
       kInvalid,
       {"lse: ", "float64"}},
      {"k on a GPU",
       [](Call& c) { c.t.k.device = Device::cuda(0); },
       kInvalid,
       {"k: ", "cuda:0", "cpu"}},
      {"out on a GPU",
       [](Call& c) { c.t.out.device = Device::cuda(1); },
       kInvalid,
       {"out: ", "cuda:1"}},
      {"mask on a CPU that isn't there",
       [](Call& c) { c.t.mask.device.index = 2; },
       kInvalid,
       {"mask: ", "cpu:2"}},
      {"q on a GPU",
       [](Call& c) { c.t.q.device = Device::cuda(3); },
       kUnsupported,
       {"device: ", "cuda:3", "supported: cpu"}},
      {"q on a device that isn't one",
       [](Call& c) {
         c.t.q.device = {static_cast<DeviceType>(9), 4};
       },
       kUnsupported,
       {"device: ", "9"}},
      {"q on the second CPU",
       [](Call& c) { c.t.q.device.index = 1; },
       kUnsupported,
       {"device: ", "cpu:1"}},
  };
  expect_refusals(table, dense_call, run_forward);
}

/// Sets entry i of an index tensor of the call.
void set_index(Tensor& tensor, int64_t i, int64_t value) {
  if (tensor.dtype == DType::kInt32) {
    static_cast<int32_t*>(tensor.data)[i] = static_cast<int32_t>(value);
  } else {
    static_cast<int64_t*>(tensor.data)[i] = value;
  }
}

TEST(ValidateRun, RefusesWrongLengths) {
  NEEDS(can_run_forward());
  const std::vector<BadInput> table = {
      {"seqused_q past the rows",
       [](Call& c) { set_index(c.t.seqused_q, 1, 6); },
       kInvalid,
       {"seqused_q[1]: is 6", "0 to 5"}},
      {"seqused_k past the rows",
       [](Call& c) { set_index(c.t.seqused_k, 0, kMax); },
       kInvalid,
       {"seqused_k[0]: is 9223372036854775807"}},
      {"negative seqused_k",
       [](Call& c) { set_index(c.t.seqused_k, 1, -1); },
       kInvalid,
       {"seqused_k[1]: is -1"}},
      {"start_q past seqused_q",
       [](Call& c) { set_index(c.t.start_q, 1, 5); },
       kInvalid,
       {"start_q[1]: is 5", "0 to 4"}},
      {"negative start_k",
       [](Call& c) { set_index(c.t.start_k, 0, -7); },
       kInvalid,
       {"start_k[0]: is -7"}},
  };
  expect_refusals(table, dense_call, run_forward);
}

TEST(ValidateRun, RefusesWrongCuSeqlens) {
  NEEDS(can_run_forward());
  const std::vector<BadInput> table = {
      {"first entry not 0",
       [](Call& c) { set_index(c.t.cu_seqlens_q, 0, 1); },
       kInvalid,
       {"cu_seqlens_q[0]: is 1", "allowed: 0"}},
      {"negative first entry",
       [](Call& c) { set_index(c.t.cu_seqlens_k, 0, -1); },
       kInvalid,
       {"cu_seqlens_k[0]: is -1"}},
      {"decreasing",
       [](Call& c) { set_index(c.t.cu_seqlens_q, 2, 2); },
       kInvalid,
       {"cu_seqlens_q[2]: is 2", "below", "3 or more"}},
      {"decreasing far below 0",
       [](Call& c) { set_index(c.t.cu_seqlens_k, 1, std::numeric_limits<int64_t>::min()); },
       kInvalid,
       {"cu_seqlens_k[1]: is -9223372036854775808"}},
      {"past the rows",
       [](Call& c) { set_index(c.t.cu_seqlens_k, 2, 8); },
       kInvalid,
       {"cu_seqlens_k[2]: is 8", "7 rows"}},
      {"a middle entry past the rows",
       [](Call& c) { set_index(c.t.cu_seqlens_q, 1, 7); },
       kInvalid,
       {"cu_seqlens_q[1]: is 7", "6 rows"}},
      {"longer than max_seqlen_q",
       [](Call& c) { c.o.max_seqlen_q = 2; },
       kInvalid,
       {"max_seqlen_q: is 2", "sequence 0 has 3"}},
      {"longer than max_seqlen_k",
       [](Call& c) { c.o.max_seqlen_k = 3; },
       kInvalid,
       {"max_seqlen_k: is 3", "sequence 1 has 4"}},
      {"bias narrower than the longest k",
       [](Call& c) { c.t.bias.dims[3] = 3; },
       kInvalid,
       {"bias: ", "dim 3 is 3", "sequence 1 has 4"}},
      {"mask shorter than the longest q",
       [](Call& c) { c.t.mask.dims[2] = 2; },
       kInvalid,
       {"mask: ", "dim 2 is 2", "sequence 0 has 3"}},
      {"seqused_k past the sequence",
       [](Call& c) { set_index(c.t.seqused_k, 0, 3); },
       kInvalid,
       {"seqused_k[0]: is 3", "0 to 2"}},
  };
  expect_refusals(table, packed_call, run_forward);
}

TEST(ValidateRun, RefusesWrongGradients) {
  NEEDS(can_run_backward());
  const std::vector<BadInput> table = {
      {"no out", [](Call& c) { c.t.out = {}; }, kInvalid, {"out: absent"}},
      {"no lse", [](Call& c) { c.t.lse = {}; }, kInvalid, {"lse: absent"}},
      {"no dout", [](Call& c) { c.g.dout = {}; }, kInvalid, {"dout: absent"}},
      {"no dq", [](Call& c) { c.g.dq = {}; }, kInvalid, {"dq: absent"}},
      {"no dk", [](Call& c) { c.g.dk = {}; }, kInvalid, {"dk: absent"}},
      {"no dv", [](Call& c) { c.g.dv = {}; }, kInvalid, {"dv: absent"}},
      {"dout of another shape",
       [](Call& c) { c.g.dout.dims[3] = 8; },
       kInvalid,
       {"dout: ", "[2, 5, 4, 8]"}},
      {"dlse as [b, s, h]",
       [](Call& c) { std::swap(c.g.dlse.dims[1], c.g.dlse.dims[2]); },
       kInvalid,
       {"dlse: ", "[2, 5, 4]"}},
      {"dq of another dtype",
       [](Call& c) { c.g.dq.dtype = DType::kFloat16; },
       kInvalid,
       {"dq: ", "float16"}},
      {"dk of query heads",
       [](Call& c) { c.g.dk.dims[2] = 4; },
       kInvalid,
       {"dk: ", "[2, 6, 4, 8]"}},
      {"dv of rank 3", [](Call& c) { c.g.dv.rank = 3; }, kInvalid, {"dv: ", "[2, 6, 2]"}},
      {"dbias of another shape",
       [](Call& c) { c.g.dbias.dims[1] = 1; },
       kInvalid,
       {"dbias: ", "[2, 1, 5, 6]"}},
      {"dbias of another dtype",
       [](Call& c) { c.g.dbias.dtype = DType::kBFloat16; },
       kInvalid,
       {"dbias: ", "bfloat16"}},
      {"dsink of another shape",
       [](Call& c) { c.g.dsink.dims[0] = 2; },
       kInvalid,
       {"dsink: ", "[2]"}},
      {"broadcast dq",
       [](Call& c) { c.g.dq.strides[0] = 0; },
       kInvalid,
       {"dq: ", "stride 0 is 0", "written"}},
      {"broadcast dbias",
       [](Call& c) { c.g.dbias.strides[2] = 0; },
       kInvalid,
       {"dbias: ", "stride 2 is 0", "written"}},
      {"rows of dv that overlap",
       [](Call& c) { c.g.dv.strides[1] = c.g.dv.strides[3]; },
       kInvalid,
       {"dv: ", "strides 1 and 2 are 1 and 4", "written"}},
      {"negative stride of dk",
       [](Call& c) { c.g.dk.strides[3] = -1; },
       kInvalid,
       {"dk: ", "stride 3 is -1"}},
      {"dout without data",
       [](Call& c) { c.g.dout.data = nullptr; },
       kInvalid,
       {"dout: data is null"}},
      {"dv without data", [](Call& c) { c.g.dv.data = nullptr; }, kInvalid, {"dv: data is null"}},
      {"dq on a GPU",
       [](Call& c) { c.g.dq.device = Device::cuda(0); },
       kInvalid,
       {"dq: ", "cuda:0"}},
      {"lengths that are wrong in the backward too",
       [](Call& c) { set_index(c.t.seqused_q, 0, 9); },
       kInvalid,
       {"seqused_q[0]: is 9"}},
  };
  expect_refusals(table, dense_call, run_backward);
}

TEST(ValidateRun, ForwardNeedsNoLse) {
  NEEDS(can_run_forward());
  Call call = dense_call();
  call.t.lse = {};
  EXPECT_EQ(run_forward(call).message(), "");
}

}  // namespace
}  // namespace fa4::test
