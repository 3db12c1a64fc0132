// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/checked.h"

#include <cstdlib>
#include <cstring>
#include <vector>

namespace fa4::gpu {

bool checked_mode() {
  const char* value = std::getenv("FA4_CHECKED");
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

Status check_lengths(const Runtime& runtime, const core::Problem& problem,
                     const AttentionTensors& tensors, Stream stream) {
  AttentionTensors host = tensors;
  Tensor* const lengths[] = {&host.cu_seqlens_q, &host.cu_seqlens_k, &host.seqused_q,
                             &host.seqused_k,    &host.start_q,      &host.start_k};
  std::vector<std::vector<std::byte>> copies;
  for (Tensor* t : lengths) {
    if (!t->present() || t->dims[0] == 0) continue;
    if (copies.empty()) {  // what wrote them may still be on its way
      Status status = runtime.synchronize(stream);
      if (!status.ok()) return status;
    }
    const int64_t elements = (t->dims[0] - 1) * t->strides[0] + 1;
    std::vector<std::byte> copy(static_cast<size_t>(elements * size_of(t->dtype)));
    Status status = runtime.copy_out(copy.data(), t->data, copy.size());
    if (!status.ok()) return status;
    copies.push_back(std::move(copy));
    t->data = copies.back().data();
    t->device = Device::cpu();
  }
  return copies.empty() ? Status() : core::validate_lengths(problem, host);
}

}  // namespace fa4::gpu
