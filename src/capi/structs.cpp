// SPDX-License-Identifier: BSD-3-Clause
#include "capi/structs.h"

#include <cstdint>
#include <optional>
#include <utility>

namespace fa4::capi {
namespace {

// Sizes of the structs when they were first published. They never change.
constexpr size_t kOldestTensor = 96;
constexpr size_t kOldestTensors = 16 * 8;
constexpr size_t kOldestGradients = 8 * 8;
constexpr size_t kOldestOptions = 96;
static_assert(sizeof(fa4_tensor) >= kOldestTensor && sizeof(fa4_tensors) >= kOldestTensors &&
              sizeof(fa4_gradients) >= kOldestGradients && sizeof(fa4_options) >= kOldestOptions);

// No struct will ever be as large: a size beyond is a variable that nobody set.
constexpr size_t kLargestStruct = 4096;

/// Checks that `value` is one of an enum's `count` values, which count from 0.
Status check_enum(const std::string& name, int32_t value, int count) {
  if (value >= 0 && value < count) return {};
  return invalid_argument(name + ": is " + std::to_string(value) + "; allowed: 0 to " +
                          std::to_string(count - 1));
}

std::optional<int64_t> unless_minus_one(int64_t value) {
  return value == -1 ? std::nullopt : std::optional<int64_t>(value);
}

/// Converts each named tensor in turn, until one fails.
template <size_t kCount>
Status convert_all(
    const std::pair<const char*, std::pair<const fa4_tensor*, Tensor*>> (&tensors)[kCount]) {
  for (const auto& [name, tensor] : tensors) {
    if (Status status = to_cpp(name, tensor.first, tensor.second); !status.ok()) return status;
  }
  return {};
}

}  // namespace

Status copy_sized(const char* name, const void* source, size_t size, size_t oldest, void* target,
                  size_t target_size) {
  if (size < oldest || size > kLargestStruct) {
    return invalid_argument(std::string(name) + ".struct_size: is " + std::to_string(size) +
                            "; allowed: the sizeof of the struct, here " +
                            std::to_string(target_size));
  }
  const auto* bytes = static_cast<const unsigned char*>(source);
  for (size_t i = target_size; i < size; ++i) {
    if (bytes[i] != 0) {
      return invalid_argument(std::string(name) + ": a field at byte " + std::to_string(i) +
                              " is set, which version " FA4_VERSION_STRING
                              " of the library does not know; allowed: 0");
    }
  }
  std::memcpy(target, source, std::min(size, target_size));
  return {};
}

Status to_cpp(const char* name, const fa4_tensor* source, Tensor* target) {
  *target = Tensor{};
  if (source == nullptr) return {};
  fa4_tensor tensor{};
  Status status = copy_struct(name, source, kOldestTensor, &tensor);
  const std::string prefix = name;
  if (status.ok()) status = check_enum(prefix + ".dtype", tensor.dtype, FA4_BOOL + 1);
  if (status.ok()) status = check_enum(prefix + ".device_type", tensor.device_type, FA4_CUDA + 1);
  if (!status.ok()) return status;
  if (tensor.rank < 1 || tensor.rank > FA4_MAX_RANK) {
    return invalid_argument(prefix + ".rank: is " + std::to_string(tensor.rank) +
                            "; allowed: 1 to " + std::to_string(FA4_MAX_RANK));
  }
  target->data = tensor.data;
  target->dtype = static_cast<DType>(tensor.dtype);
  target->rank = tensor.rank;
  std::copy_n(tensor.dims, tensor.rank, target->dims.begin());
  std::copy_n(tensor.strides, tensor.rank, target->strides.begin());
  target->device = {static_cast<DeviceType>(tensor.device_type), tensor.device_index};
  return {};
}

Status to_cpp(const fa4_tensors* source, AttentionTensors* target) {
  fa4_tensors t{};
  if (Status status = copy_struct("tensors", source, kOldestTensors, &t); !status.ok()) {
    return status;
  }
  return convert_all({{"q", {t.q, &target->q}},
                      {"k", {t.k, &target->k}},
                      {"v", {t.v, &target->v}},
                      {"out", {t.out, &target->out}},
                      {"lse", {t.lse, &target->lse}},
                      {"bias", {t.bias, &target->bias}},
                      {"mask", {t.mask, &target->mask}},
                      {"alibi_slopes", {t.alibi_slopes, &target->alibi_slopes}},
                      {"sink", {t.sink, &target->sink}},
                      {"cu_seqlens_q", {t.cu_seqlens_q, &target->cu_seqlens_q}},
                      {"cu_seqlens_k", {t.cu_seqlens_k, &target->cu_seqlens_k}},
                      {"seqused_q", {t.seqused_q, &target->seqused_q}},
                      {"seqused_k", {t.seqused_k, &target->seqused_k}},
                      {"start_q", {t.start_q, &target->start_q}},
                      {"start_k", {t.start_k, &target->start_k}}});
}

Status to_cpp(const fa4_gradients* source, AttentionGradients* target) {
  fa4_gradients g{};
  if (Status status = copy_struct("gradients", source, kOldestGradients, &g); !status.ok()) {
    return status;
  }
  return convert_all({{"dout", {g.dout, &target->dout}},
                      {"dlse", {g.dlse, &target->dlse}},
                      {"dq", {g.dq, &target->dq}},
                      {"dk", {g.dk, &target->dk}},
                      {"dv", {g.dv, &target->dv}},
                      {"dbias", {g.dbias, &target->dbias}},
                      {"dsink", {g.dsink, &target->dsink}}});
}

Status to_cpp(const fa4_options* source, AttentionOptions* target) {
  fa4_options options = fa4_default_options();
  if (source != nullptr) {
    Status status = copy_struct("options", source, kOldestOptions, &options);
    if (!status.ok()) return status;
  }
  Status status = check_enum("options.causal", options.causal, FA4_CAUSAL_TOP_LEFT + 1);
  if (!status.ok()) return status;
  if (options.reserved != 0) {
    return invalid_argument("options.reserved: is " + std::to_string(options.reserved) +
                            "; allowed: 0");
  }
  if (options.has_scale != 0) target->scale = options.scale;
  target->causal = static_cast<Causal>(options.causal);
  target->window = {unless_minus_one(options.window_left), unless_minus_one(options.window_right)};
  target->softcap = options.softcap;
  target->dropout_p = options.dropout_p;
  target->dropout_seed = options.dropout_seed;
  target->deterministic = options.deterministic != 0;
  target->batch_invariant = options.batch_invariant != 0;
  target->threads = options.threads;
  target->max_seqlen_q = unless_minus_one(options.max_seqlen_q);
  target->max_seqlen_k = unless_minus_one(options.max_seqlen_k);
  return {};
}

}  // namespace fa4::capi
