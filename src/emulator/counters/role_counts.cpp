// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/counters/role_counts.h"

#include <algorithm>

namespace fa4::emulator {

void Counts::add(const Counts& o) {
  for (const NamedCount& n : named_counts()) this->*n.value += o.*n.value;
  for (size_t i = 0; i < classes.size(); ++i) classes[i] += o.classes[i];
}

void add_roles(std::vector<RoleCounts>& all, const std::vector<RoleCounts>& more) {
  for (const RoleCounts& role : more) {
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const RoleCounts& r) { return r.name == role.name; });
    if (same == all.end()) {
      all.push_back(role);
      continue;
    }
    same->warps |= role.warps;
    same->counts.add(role.counts);
  }
}

const std::vector<NamedCount>& named_counts() {
  static const std::vector<NamedCount> all = {
      {"instructions", "instructions of warps", &Counts::instructions},
      {"thread_instructions", "instructions of threads", &Counts::thread_instructions},
      {"fma", "fused multiply-adds of warps", &Counts::fma},
      {"special", "special function results", &Counts::special},
      {"matrix_flops", "operations in matrix products", &Counts::matrix_flops},
      {"copied_bytes", "bytes of bulk and tensor copies", &Counts::copied_bytes},
      {"shared_read", "shared memory: bytes read", &Counts::shared_read},
      {"shared_written", "  written", &Counts::shared_written},
      {"async_shared_read", "  read by copies, products", &Counts::async_shared_read},
      {"async_shared_written", "  written by copies", &Counts::async_shared_written},
      {"tensor_read", "tensor memory: bytes read", &Counts::tensor_read},
      {"tensor_written", "  written", &Counts::tensor_written},
      {"global_read", "global memory: bytes read", &Counts::global_read},
      {"global_written", "  written", &Counts::global_written},
      {"waits", "waits at barriers", &Counts::waits},
      {"blocked", "  that had to wait", &Counts::blocked}};
  return all;
}

}  // namespace fa4::emulator
