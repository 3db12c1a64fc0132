// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attend_tensors.h"

#include <cstring>
#include <stdexcept>

namespace fa4::cli {
namespace {

using A = AttendArrays;
using T = AttentionTensors;
using G = AttentionGradients;

constexpr NamedTensor input(const char* name, const char* flag, const char* help, Array A::*array,
                            Tensor T::*tensor) {
  return {name, flag, help, array, tensor};
}
constexpr NamedTensor output(const char* name, const char* flag, const char* help, Array A::*array,
                             Tensor T::*tensor) {
  return {name, flag, help, array, tensor, nullptr, true};
}
constexpr NamedTensor gradient(const char* name, const char* flag, const char* help,
                               Array A::*array, Tensor G::*tensor, bool written) {
  return {name, flag, help, array, nullptr, tensor, written};
}

constexpr NamedTensor kTensors[] = {
    input("q", "q", "Queries: [b, s_q, h_q, d] or packed [total, h_q, d]", &A::q, &T::q),
    input("k", "k", "Keys: [b, s_k, h_k, d] or [total, h_k, d]", &A::k, &T::k),
    input("v", "v", "Values: [b, s_k, h_k, d_v] or [total, h_k, d_v]", &A::v, &T::v),
    input("bias", "--bias", "Added to scores; dims of [b, h_q, s_q, s_k] or 1", &A::bias, &T::bias),
    input("mask", "--mask", "bool, true = may see; dims of [b, h_q, s_q, s_k] or 1", &A::mask,
          &T::mask),
    input("alibi_slopes", "--alibi-slopes", "float32 [h_q] or [b, h_q]", &A::alibi_slopes,
          &T::alibi_slopes),
    input("sink", "--sink", "One more logit per head: [h_q]", &A::sink, &T::sink),
    input("cu_seqlens_q", "--cu-seqlens-q", "Ends of packed sequences: int [b + 1], first 0",
          &A::cu_seqlens_q, &T::cu_seqlens_q),
    input("cu_seqlens_k", "--cu-seqlens-k", "The same for k and v", &A::cu_seqlens_k,
          &T::cu_seqlens_k),
    input("seqused_q", "--seqused-q", "Rows that count of each sequence: int [b]", &A::seqused_q,
          &T::seqused_q),
    input("seqused_k", "--seqused-k", "The same for k and v", &A::seqused_k, &T::seqused_k),
    input("start_q", "--start-q", "First row that counts of each sequence: int [b]", &A::start_q,
          &T::start_q),
    input("start_k", "--start-k", "The same for k and v", &A::start_k, &T::start_k),
    gradient("dout", "--dout", "Gradient of out: asks for the backward", &A::dout, &G::dout, false),
    gradient("dlse", "--dlse", "Gradient of lse", &A::dlse, &G::dlse, false),
    output("out", "-o,--out", "Result, dtype of q", &A::out, &T::out),
    output("lse", "--lse", "Log-sum-exp of each row: float32, float64 for float64 q", &A::lse,
           &T::lse),
    gradient("dq", "--dq", "Gradient of q (needs --dout)", &A::dq, &G::dq, true),
    gradient("dk", "--dk", "Gradient of k", &A::dk, &G::dk, true),
    gradient("dv", "--dv", "Gradient of v", &A::dv, &G::dv, true),
    gradient("dbias", "--dbias", "Gradient of bias", &A::dbias, &G::dbias, true),
    gradient("dsink", "--dsink", "Gradient of sink", &A::dsink, &G::dsink, true),
};

Tensor view(const Array& array, Device device) {
  Tensor tensor = array.view();
  tensor.device = device;
  return tensor;
}

Array poisoned(DType dtype, std::vector<int64_t> dims) {
  Array array(dtype, std::move(dims));
  std::memset(array.data(), 0xFF, array.bytes());
  return array;
}

}  // namespace

std::span<const NamedTensor> named_tensors() { return kTensors; }

Array& AttendArrays::at(const std::string& name) {
  for (const NamedTensor& named : kTensors) {
    if (name == named.name) return this->*named.array;
  }
  throw std::logic_error("no tensor is called " + name);
}

AttentionTensors AttendArrays::tensors(Device device) const {
  AttentionTensors tensors;
  for (const NamedTensor& named : kTensors) {
    if (named.tensor != nullptr) tensors.*named.tensor = view(this->*named.array, device);
  }
  return tensors;
}

AttentionGradients AttendArrays::gradients(Device device) const {
  AttentionGradients gradients;
  for (const NamedTensor& named : kTensors) {
    if (named.gradient != nullptr) gradients.*named.gradient = view(this->*named.array, device);
  }
  return gradients;
}

void make_forward_outputs(AttendArrays& a) {
  std::vector<int64_t> out = a.q.dims();
  out.back() = a.v.dims().back();
  a.out = poisoned(a.q.dtype(), out);
  const std::vector<int64_t>& q = a.q.dims();
  const DType lse = a.q.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  a.lse = q.size() == 3 ? poisoned(lse, {q[1], q[0]}) : poisoned(lse, {q[0], q[2], q[1]});
}

void make_backward_outputs(AttendArrays& a, bool dbias, bool dsink) {
  a.dq = poisoned(a.q.dtype(), a.q.dims());
  a.dk = poisoned(a.k.dtype(), a.k.dims());
  a.dv = poisoned(a.v.dtype(), a.v.dims());
  if (dbias) a.dbias = poisoned(a.bias.dtype(), a.bias.dims());
  if (dsink) a.dsink = poisoned(a.sink.dtype(), a.sink.dims());
}

}  // namespace fa4::cli
