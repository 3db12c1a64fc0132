// SPDX-License-Identifier: BSD-3-Clause
#include "support/bad_input.h"

#include <gtest/gtest.h>

#include <map>

namespace fa4::test {
namespace {

/// Adds what both calls share, makes the outputs, takes the views.
Call finish(Case c, int64_t s_q, int64_t s_k) {
  Random random(3);
  const DType f32 = DType::kFloat32;
  c.bias = HostTensor(f32, {2, 4, s_q, s_k}).fill_normal(random);
  c.mask = HostTensor(DType::kBool, {2, 1, s_q, s_k}).fill(1);
  c.alibi_slopes = HostTensor::of(f32, {4}, {.5, .25, .125, .0625});
  c.sink = HostTensor(f32, {4}).fill_normal(random);
  const Dims& q = c.q.dims();
  const bool packed = q.size() == 3;
  const Dims out_dims = packed ? Dims{q[0], q[1], 4} : Dims{q[0], q[1], q[2], 4};
  const Dims lse_dims = packed ? Dims{q[1], q[0]} : Dims{q[0], q[2], q[1]};
  c.out = {f32, out_dims};
  c.lse = {f32, lse_dims};
  c.dlse = HostTensor(f32, lse_dims).fill_normal(random);
  c.dq = {f32, c.q.dims()};
  c.dk = {f32, c.k.dims()};
  c.dv = {f32, c.v.dims()};
  c.dbias = {f32, c.bias.dims()};
  c.dsink = {f32, c.sink.dims()};
  Call call;
  call.t = c.tensors();
  call.g = c.gradients();
  call.o = c.options;
  call.owner = std::move(c);  // moves the vectors, so that the views stay good
  return call;
}

void expect_untouched(const Call& call, const std::string& what) {
  const Case& c = call.owner;
  for (const HostTensor* output : {&c.out, &c.lse, &c.dq, &c.dk, &c.dv, &c.dbias, &c.dsink}) {
    for (std::byte b : output->bytes()) {
      ASSERT_EQ(b, std::byte{0xFF}) << what << ": an output was written";
    }
    EXPECT_EQ(output->damage(), "") << what;
  }
}

}  // namespace

Call dense_call() {
  Case c = ref64({.batch = 2, .s_q = 5, .s_k = 6, .heads_q = 4, .heads_k = 2, .d = 8, .d_v = 4});
  c.seqused_q = indices({5, 4});
  c.seqused_k = indices({6, 3}, DType::kInt64);
  c.start_q = indices({0, 1}, DType::kInt64);
  c.start_k = indices({1, 0});
  return finish(std::move(c), 5, 6);
}

Call packed_call() {
  Case c = ref64({.heads_q = 4,
                  .heads_k = 2,
                  .d = 8,
                  .d_v = 4,
                  .lengths_q = {3, 2, 1},
                  .lengths_k = {2, 4, 1}});
  c.cu_seqlens_q = cu_seqlens_of({3, 2});
  c.cu_seqlens_k = cu_seqlens_of({2, 4}, DType::kInt64);
  c.seqused_k = indices({2, 3});
  return finish(std::move(c), 3, 4);
}

void expect_refusals(const std::vector<BadInput>& table, Call (*make)(),
                     const std::function<Status(const Call&)>& run) {
  std::map<std::string, std::string> seen;
  for (const BadInput& bad : table) {
    SCOPED_TRACE(bad.what);
    Call call = make();
    bad.spoil(call);
    const Status status = run(call);
    const std::string& message = status.message();
    EXPECT_EQ(status.code(), bad.code) << message;
    EXPECT_EQ(message.rfind(bad.message_has.at(0), 0), 0U)
        << "should begin with '" << bad.message_has[0] << "': " << message;
    for (const std::string& part : bad.message_has) {
      EXPECT_NE(message.find(part), std::string::npos) << "lacks '" << part << "': " << message;
    }
    const bool says_what_is_allowed = message.find("; allowed: ") != std::string::npos ||
                                      message.find("; supported: ") != std::string::npos;
    EXPECT_TRUE(says_what_is_allowed) << message;
    const auto [before, is_new] = seen.emplace(message, bad.what);
    EXPECT_TRUE(is_new) << "same message as '" << before->second << "': " << message;
    expect_untouched(call, bad.what);
  }
}

Status run_forward(const Call& call) { return attention(call.t, call.o); }
Status run_backward(const Call& call) { return attention_backward(call.t, call.g, call.o); }

}  // namespace fa4::test
