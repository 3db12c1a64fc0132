// SPDX-License-Identifier: BSD-3-Clause
// The judge: a monitor that holds what a kernel does against the rules.
//
//   judge.cpp          instructions: before and after each
//   judge_memory.cpp   shared, local and global memory
//   judge_tensor.cpp   tensor memory
//   judge_async.cpp    operations in flight
//   judge_barrier.cpp  mbarriers, named barriers, fences
//   judge_exit.cpp     lanes, warps, CTAs that end
//   judge_report.cpp   what is said
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/judge/effects.h"
#include "emulator/judge/registers.h"
#include "emulator/judge/report.h"
#include "emulator/judge/shadow.h"
#include "emulator/judge/threads.h"
#include "emulator/machine.h"
#include "emulator/monitor.h"

namespace fa4::emulator::judge {

/// Groups of operations, as the program counts them.
struct Groups {
  uint32_t issued = 0;
  uint32_t waited = 0;  ///< Operations up to that one are over.
  std::deque<uint32_t> ends;

  void commit() { ends.push_back(issued); }
  /// All but the youngest groups are over.
  void wait(uint32_t pending) {
    while (ends.size() > pending) {
      waited = std::max(waited, ends.front());
      ends.pop_front();
    }
  }
};

/// Bulk stores of a thread: an agent's epoch for each.
struct BulkWatch {
  uint32_t last = 0, read = 0;
  std::deque<uint32_t> ends;
};

struct WarpWatch {
  WarpWatch(const Layout& layout, uint32_t number, const Kernel& kernel, const RegisterPlan& plan,
            uint32_t lanes)
      : component(number), threads(layout, number, lanes), registers(kernel, plan) {}

  uint32_t component;
  WarpThreads threads;
  RegisterWatch registers;
  Groups wgmma, copies;
  bool copies_arrive = false;  ///< Some mbarrier counts them.
  uint32_t loads = 0, stores = 0, loads_waited = 0, stores_waited = 0;  ///< Of tensor memory.
  std::map<uint32_t, BulkWatch> bulk;                                   ///< By lane.
  std::vector<DefinedBytes> local;                                      ///< By lane.
};

struct BarrierClocks {
  Clock current, done;
  void complete() {
    done.join(current);
    current.clear();
  }
};

constexpr uint32_t kMbarrierBytes = 8;

struct MbarrierWatch {
  BarrierClocks clocks;
  Event init;
  bool fenced = false;                   ///< By fence.mbarrier_init.
  bool known = false;                    ///< To all CTAs, by a cluster barrier after that.
  std::map<uint64_t, uint64_t> waiting;  ///< Phases awaited, by component and lanes.
  /// By warp and lane: 2 more than the last phase seen complete; 0: none yet.
  std::map<uint32_t, std::array<int64_t, kLanes>> seen;
};

/// A copy into shared memory.
struct Arrival {
  uint32_t component = 0;
  uint32_t epoch = 0;
  uint32_t pc = 0;
};

struct CtaWatch {
  CtaWatch(Cta& owner, size_t shared_bytes)
      : cta(&owner), shared(shared_bytes / ChunkKeeper::kBytes + 1), defined(shared_bytes) {}

  Cta* cta;
  bool ended = false;
  std::vector<Chunk> shared;
  DefinedBytes defined;
  std::vector<Cell> tensor;  ///< [column][lane / 16], once it is used.
  std::map<uint32_t, MbarrierWatch> mbarriers;
  std::array<BarrierClocks, 16> barriers;
  std::map<uint32_t, Event> remote;      ///< Last accesses of other CTAs' threads and of agents.
  std::map<uint32_t, Arrival> arrivals;  ///< By component: the last.
  /// By a tensor map's address, who had written it when a thread acquired it.
  std::map<uint64_t, uint64_t> maps;
};

/// Of so many operations of an agent is known who started them.
constexpr uint32_t kIssuers = 64;

/// Who started an agent's operation.
struct Issuer {
  uint32_t epoch = 0;  ///< Of the agent.
  uint32_t warp = 0;   ///< Component.
  uint32_t warp_epoch = 0;
  uint32_t lane = 0;
  uint32_t pc = 0;
};

struct ClusterWatch {
  Cluster* cluster = nullptr;
  Layout layout;
  uint32_t components = 0;  ///< layout.size()
  std::vector<std::unique_ptr<CtaWatch>> ctas;
  std::vector<std::unique_ptr<WarpWatch>> warps;  ///< By component.
  BarrierClocks barrier;
  uint32_t next_slot = 0;
  std::vector<uint32_t> epochs;                          ///< By agent.
  std::vector<std::array<Issuer, kIssuers>> issuers;     ///< By agent and epoch.
  std::map<uint64_t, std::array<uint32_t, 2>> products;  ///< Last mma and cp, by thread.

  const Issuer* issuer(uint32_t component, uint32_t epoch) const;
};

/// What an operation knows at its start.
struct Knowledge {
  Clock clock;
  std::vector<uint32_t> tensor_seen;
};

/// What an operation in flight knows and is.
struct FlightRecord final : OpRecord {
  /// What it knows lies in memory of an earlier one's, if there is some, and goes back there.
  explicit FlightRecord(std::vector<Knowledge>& pool) : pool_(&pool) {
    if (pool.empty()) return;
    known = std::move(pool.back());
    pool.pop_back();
    known.clock.clear();
  }
  ~FlightRecord() override { pool_->push_back(std::move(known)); }
  FlightRecord(const FlightRecord&) = delete;
  FlightRecord& operator=(const FlightRecord&) = delete;

  ClusterWatch* cluster = nullptr;
  Actor actor;
  Knowledge known;
  uint32_t cta = 0;
  uint32_t write_component = 0;  ///< Of bulk stores, for what they write.
  Effect effect = Effect::kPlain;

  Actor atomic_actor() const {
    Actor a = actor;
    a.atomic = true;
    return a;
  }

 private:
  std::vector<Knowledge>* pool_;
};

class Judge final : public Monitor, private Referee {
 public:
  Judge(const Grid& grid, bool warnings);
  ~Judge() override;

  const std::vector<Report>& warnings() const { return reports_; }

  void cluster_begins(Cluster& cluster) override;
  void cluster_ends(Cluster& cluster) override;
  void warp_ends(Warp& warp) override;
  void before(Warp& warp, uint32_t pc, uint32_t lanes) override;
  void after(Warp& warp, uint32_t pc, uint32_t lanes, bool done) override;
  void shared_access(Cta& cta, uint32_t offset, uint32_t bytes, Access access,
                     Proxy proxy) override;
  void global_access(uint64_t address, uint64_t bytes, Access access) override;
  void tensor_map(uint64_t address, bool used) override;
  void local_access(Warp& warp, uint64_t offset, uint32_t bytes, Access access) override;
  void tensor_access(Cta& cta, const TensorBlock& block, Access access) override;
  void op_starts(AsyncOp& op) override;
  void op_joined(AsyncOp& op) override;
  void op_begins(AsyncOp& op) override;
  void op_ends(AsyncOp& op) override;
  void tensor_loaded(Warp& warp, uint32_t slot, uint32_t defined) override;
  void mbarrier(Cta& cta, const Mbarrier& barrier, BarrierEvent event) override;
  void mbarrier_test(Warp& warp, uint32_t address, uint32_t parity, uint32_t lanes,
                     bool complete) override;
  void named_barrier_complete(Cta& cta, uint32_t number) override;
  void cluster_barrier_complete(Cluster& cluster) override;
  void tensor_allocation(Cta& cta, uint32_t column, uint32_t columns, bool taken) override;

 private:
  enum class Where : uint8_t { kShared, kGlobal, kTensor, kDealloc };
  struct Test {
    CtaWatch* cta;
    uint32_t offset, parity, lanes;
    bool complete;
  };

  // judge.cpp
  ClusterWatch& watch_of(const Cluster& cluster);
  CtaWatch& watch_of(const Cta& cta);
  WarpWatch& watch_of(const Warp& warp);
  void check_registers(Warp& warp, uint32_t pc, uint32_t lanes);
  void before_effect(Warp& warp, uint32_t pc, uint32_t lanes);
  void after_effect(Warp& warp, uint32_t pc, uint32_t lanes);
  void wait_groups(Warp& warp, uint32_t pc, uint32_t lanes);
  void wait_bulk(uint32_t pending, uint32_t lanes, bool read_only);
  void before_wgmma(Warp& warp, uint32_t pc);
  const Actor& actor_now(bool atomic);

  // judge_memory.cpp
  void check_defined(CtaWatch& cta, uint32_t offset, uint32_t bytes, Access access);
  void define_lanes(const Inst& inst, uint32_t lanes);
  uint32_t stored_undefined(uint32_t at) const;
  uint64_t writers_of(uint64_t address, uint64_t bytes);
  void synchronise(Clock& location, Access access);

  // judge_async.cpp
  FlightRecord* flight() const { return flights_.empty() ? nullptr : flights_.back(); }
  uint32_t next_epoch(const AsyncOp& op, uint32_t component, const FlightRecord& record);
  void count_operation(const AsyncOp& op, FlightRecord& record);
  uint32_t component_of(const AsyncOp& op, const Warp& warp, Effect effect, FlightRecord& record);

  // judge_barrier.cpp
  void arrive(CtaWatch& cta, MbarrierWatch& b, bool counts);
  void settle_tests(Warp& warp, bool done);
  void fence_inits(uint32_t lanes);
  void fence_after(uint32_t lanes);

  // judge_exit.cpp
  void leave(Warp& warp, uint32_t lanes);
  void cta_ends(CtaWatch& cta);

  // judge_report.cpp
  void clash(Clash clash, const Event& earlier, const Actor& actor, uint64_t cell) override;
  void in_order(Clash how, const Event& earlier, const Actor& actor, uint64_t cell) override;
  void check_tensor_fence(const Event& earlier);
  bool is_error(Rule rule) const;
  bool wants(Rule rule) const;
  void report(Rule rule, uint32_t pc, uint32_t other_pc, const std::string& text);
  /// "warp 3 of CTA (0, 0, 0), lane 5, PTX line 123 (forward.cuh:45): st.shared.b32".
  std::string place(uint32_t pc, const std::string& who) const;
  std::string name_of(const Event& e) const;
  std::string party(const Event& e) const;
  std::string me() const;
  std::string address_of(uint64_t cell) const;
  bool is_init_of_another(const Event& earlier, uint64_t cell) const;
  Rule rule_of(Clash clash, const Event& earlier, const Actor& actor, uint64_t cell,
               bool started) const;

  const Grid& grid_;
  const Kernel& kernel_;
  bool warnings_;
  std::shared_ptr<const KernelPlan> plan_;
  const std::vector<EffectInfo>& effects_;
  std::unordered_map<const Cluster*, std::unique_ptr<ClusterWatch>> clusters_;
  CellKeeper tensor_keeper_;
  ChunkKeeper shared_keeper_, global_keeper_;
  PagedChunks global_;
  std::unordered_map<uint64_t, Clock> locations_;
  std::vector<Report> reports_;

  // The instruction at hand.
  Warp* warp_ = nullptr;
  ClusterWatch* cluster_ = nullptr;
  WarpWatch* threads_ = nullptr;
  uint32_t pc_ = 0, lanes_ = 0;
  bool collective_ = false;  ///< The whole warp does it as one.
  std::vector<MbarrierWatch*> arrived_;
  std::vector<Test> tests_;
  std::array<uint32_t, kLanes> undefined_{};  ///< Bytes loaded that nobody wrote.
  bool any_undefined_ = false;
  bool all_stored_defined_ = true;

  Actor own_;                           ///< Of the instruction that runs.
  std::vector<Knowledge> pool_;         ///< Of operations that are over.
  std::vector<FlightRecord*> flights_;  ///< The operation whose step it is, innermost last.
  Where where_ = Where::kShared;
  CtaWatch* where_cta_ = nullptr;
};

}  // namespace fa4::emulator::judge
