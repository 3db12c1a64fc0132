// SPDX-License-Identifier: BSD-3-Clause
// st.async and red.async: PTX ISA 9.7.9.12, 9.7.13.8. Each lane's value goes to the shared memory
// of a CTA of the cluster, and an mbarrier there is told of the bytes.
#include <bit>
#include <cstring>

#include "emulator/exec/copy_handlers.h"
#include "emulator/monitor.h"
#include "emulator/worker.h"

namespace fa4::emulator::exec {
namespace {

constexpr uint32_t kMostBytes = 16;

struct AsyncValue {
  std::array<std::byte, kMostBytes> data{};
  uint32_t bytes = 0;
  uint32_t to = 0;  ///< shared::cluster addresses
  uint32_t mbarrier = 0;
  MapType type = MapType::kU32;
  ReduceKind reduce = ReduceKind::kReplace;
};

class AsyncStore final : public AsyncOp {
 public:
  AsyncStore(Warp& warp, const AsyncValue& value)
      : AsyncOp(*warp.cta->cluster, warp.pc), value_(value) {}

  bool step() override {
    const AsyncValue& v = value_;
    std::byte* to =
        resolve_shared(*cluster, v.to, v.bytes, v.bytes, Access::kWrite, Proxy::kGeneric);
    if (v.reduce == ReduceKind::kReplace) {
      std::memcpy(to, v.data.data(), v.bytes);
    } else {
      reduce_bytes(to, v.data.data(), v.bytes, v.type, v.reduce);
    }
    mbarrier_complete(*cluster, v.mbarrier, v.bytes);
    return true;
  }

 private:
  AsyncValue value_;
};

uint32_t shared_address(const Warp& w, uint32_t slot, uint32_t bytes, uint32_t offset,
                        uint32_t lane) {
  uint64_t address = bytes == 8 ? w.reg<uint64_t>(slot)[lane] : w.reg<uint32_t>(slot)[lane];
  address += static_cast<uint64_t>(static_cast<int32_t>(offset));
  if (bytes == 4) address &= 0xffffffff;
  address &= ~kSharedWindow;
  if (address >> 32 != 0) throw Fault("shared address " + hex(address) + " exceeds 32 bits");
  return static_cast<uint32_t>(address);
}

Step store(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* list = &w.program().lists[i.list];
  const uint32_t element = i.mod[5];
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    if (Monitor* monitor = w.worker->monitor()) monitor->lane = lane;
    AsyncValue v;
    v.to = shared_address(w, list[0], i.mod[8], i.b, lane);
    v.mbarrier = shared_address(w, list[1], i.mod[9], i.c, lane);
    if (v.to >> kRankShift != v.mbarrier >> kRankShift) {
      throw Fault("an asynchronous store to shared memory of CTA " +
                  std::to_string(v.to >> kRankShift) + " with an mbarrier of CTA " +
                  std::to_string(v.mbarrier >> kRankShift) + "; allowed: the same");
    }
    for (uint32_t k = 2; k < i.list_size; ++k) {
      const uint64_t x =
          element == 8 ? w.reg<uint64_t>(list[k])[lane] : w.reg<uint32_t>(list[k])[lane];
      std::memcpy(v.data.data() + v.bytes, &x, element);
      v.bytes += element;
    }
    v.reduce = static_cast<ReduceKind>(i.mod[2]);
    v.type = static_cast<MapType>(i.mod[3]);
    w.worker->start(std::make_unique<AsyncStore>(w, v));
  }
  return Step::kNext;
}

}  // namespace

Handler async_store() { return store; }

}  // namespace fa4::emulator::exec
