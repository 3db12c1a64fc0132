// SPDX-License-Identifier: BSD-3-Clause
// How a handler touches memory lane by lane: checked always, quick for the CTA's own shared memory
// and for global memory.
#pragma once

#include <bit>
#include <cstdint>

#include "emulator/worker.h"

namespace fa4::emulator::exec {

class Accessor {
 public:
  /// Space and address size are in mod[14] and mod[15]; `bytes` are those of a lane, which are also
  /// the alignment.
  Accessor(Warp& w, const Inst& i, Access access, uint32_t bytes, uint32_t align = 0)
      : warp_(w),
        inst_(i),
        access_(access),
        bytes_(bytes),
        align_(align != 0 ? align : bytes),
        space_(static_cast<Space>(i.mod[14])),
        watched_(w.worker->monitor() != nullptr) {}

  /// f(lane, host address) for the lanes of the mask, lowest first.
  template <class F>
  void for_each(uint32_t mask, F f) {
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
      f(lane, at(address(lane), lane));
    }
  }

  uint64_t address(uint32_t lane) const {
    if (inst_.mod[15] == 8) {
      return warp_.reg<uint64_t>(inst_.a)[lane] + static_cast<uint64_t>(inst_.imm);
    }
    return static_cast<uint32_t>(warp_.reg<uint32_t>(inst_.a)[lane] +
                                 static_cast<uint32_t>(inst_.imm));
  }

  std::byte* at(uint64_t address, uint32_t lane) {
    if (!watched_ && address % align_ == 0) {
      if (space_ == Space::kShared) {
        Cta& cta = *warp_.cta;
        const uint64_t offset = address - cta.shared_base();
        if (offset >= kSharedStart && offset < cta.shared.size() &&
            bytes_ <= cta.shared.size() - offset) {
          return cta.shared.data() + offset;
        }
      } else if (space_ == Space::kGlobal ||
                 (space_ == Space::kGeneric && (address & kWindows) == 0)) {
        return warp_.worker->global_at(address, bytes_, access_);
      }
    }
    return resolve(warp_, space_, address, bytes_, align_, access_, lane);
  }

 private:
  Warp& warp_;
  const Inst& inst_;
  Access access_;
  uint32_t bytes_;
  uint32_t align_;
  Space space_;
  bool watched_;
};

}  // namespace fa4::emulator::exec
