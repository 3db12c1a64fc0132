// SPDX-License-Identifier: BSD-3-Clause
// Faults of the sm_90a forward, written by hand.
#include "emulator/mutants/mutant.h"

namespace fa4::emulator::mutants {
namespace {

// Which configurations have the place that is changed.
const std::vector<std::string> kAny = {"forward_causal", "forward_ordered", "forward_lengths"};
const std::vector<std::string> kCounted = {"forward_causal"};
const std::vector<std::string> kTurns = {"forward_ordered", "forward_lengths"};
const std::vector<std::string> kOverlap = {"forward_overlap"};
const std::vector<std::string> kLengths = {"forward_lengths"};
const std::vector<std::string> kPair = {"forward_pair"};

constexpr const char* kPipeline = "tile/pipeline.cuh";
constexpr const char* kTile = "tile/shared_tile.cuh";
constexpr const char* kWgmma = "ptx/wgmma.cuh";
constexpr const char* kForward = "sm90/forward.cuh";
constexpr const char* kProducer = "sm90/forward_producer.cuh";
constexpr const char* kConsumer = "sm90/forward_consumer.cuh";
constexpr const char* kProducts = "sm90/forward_products.cuh";
constexpr const char* kOutput = "sm90/forward_output.cuh";
constexpr const char* kSchedule = "attention/schedule.cuh";
constexpr const char* kConfig = "sm90/forward_config.cuh";

Mutant fault(const char* name, const char* kind, const std::vector<std::string>& where,
             const char* file, const char* find, const char* replace, const char* why) {
  Mutant m;
  m.name = name;
  m.kind = kind;
  m.victims = where;
  m.patch = {file, find, replace};
  m.why = why;
  return m;
}

std::vector<Mutant> waits() {
  return {
      fault("first_k_not_awaited", "wait", kAny, kConsumer,
            "shared.k_ring.wait(k_at, k_ready);\n        issue_scores", "issue_scores",
            "the product may read K before the copy has landed"),
      fault("next_k_not_awaited", "wait", kAny, kConsumer,
            "shared.k_ring.wait(k_at, k_ready);\n          issue_output", "issue_output",
            "the product may read K before the copy has landed"),
      fault("v_not_awaited", "wait", kAny, kConsumer,
            "shared.v_ring.wait(v_at, v_ready);\n        //", "//",
            "the product may read V before the copy has landed"),
      fault("peek_misread", "wait", kAny, kPipeline, "if (!peeked) wait(at);",
            "if (peeked) wait(at);", "waits only when there is no need to"),
      fault("stage_taken_unasked", "wait", kAny, kPipeline,
            "ptx::mbarrier_wait(&empty[at.stage], at.parity ^ 1);\n    ptx::mbarrier_arrive_expect",
            "ptx::mbarrier_arrive_expect", "copies over K and V that consumers still read"),
      fault("q_not_awaited", "wait", kAny, kConsumer,
            "if (!q_ready) ptx::mbarrier_wait(&shared.q_full[warpgroup], q_parity);", "",
            "the product may read Q before the copy has landed"),
      fault("q_taken_unasked", "wait", kAny, kProducer,
            "ptx::mbarrier_wait(&shared.q_empty[w], parity);", "",
            "copies the next Q over one that is still read"),
      fault("raw_v_not_awaited", "wait", kLengths, kProducer,
            "ptx::mbarrier_wait(&shared.v_raw[at.stage], parities >> at.stage & 1);", "",
            "cleans V before the copy has landed"),
      fault("queue_slot_taken_unasked", "wait", kAny, kPipeline,
            "ptx::mbarrier_wait(&empty[at.stage], at.parity ^ 1);\n    items", "items",
            "overwrites a tile's description that others still read"),
      fault("product_pending_one", "wait", kAny, kConsumer,
            "ptx::wgmma_wait<0>();\n          ptx::pin(scores);\n          ptx::pin(output);",
            "ptx::wgmma_wait<1>();\n          ptx::pin(scores);\n          ptx::pin(output);",
            "the scores' product may still be pending when they are read"),
      fault("last_product_not_awaited", "wait", kAny, kConsumer,
            "ptx::wgmma_wait<0>();\n        ptx::pin(output);", "ptx::pin(output);",
            "O is read while its last product may be pending"),
      fault("store_not_read_yet", "wait", kAny, kOutput, "if (leader) ptx::bulk_wait_read();", "",
            "O is overwritten while the store before may still read it"),
      fault("counter_not_claimed", "wait", kCounted, kProducer, "p.counter->claim(p.launch);", ";",
            "tiles are counted on from what the workspace held"),
      fault("counter_wraps_early", "count", kCounted, kSchedule, "questions - 1", "questions - 2",
            "the last to ask begins all over again"),
      fault("exit_with_store_pending", "wait", kAny, kConsumer, "if (leader) ptx::bulk_wait();", "",
            "shared memory may be gone before the store has read it"),
      fault("list_not_awaited", "wait", kLengths, kProducer, "ptx::grid_dependency_wait();", "",
            "reads the list of tiles while the kernel before may still write it"),
  };
}

std::vector<Mutant> phases_and_counts() {
  return {
      fault("producer_parity", "phase", kAny, kPipeline,
            "ptx::mbarrier_wait(&empty[at.stage], at.parity ^ 1);\n    ptx::mbarrier_arrive_expect",
            "ptx::mbarrier_wait(&empty[at.stage], at.parity);\n    ptx::mbarrier_arrive_expect",
            "waits for consumers that have nothing to read yet"),
      fault("parity_never_flips", "phase", kAny, kPipeline, "parity ^= 1;", "",
            "the second time around a ring's phases are mixed up"),
      fault("q_parity_never_flips", "phase", kAny, kConsumer, "q_parity ^= 1;", "",
            "the second tile takes the first one's Q for its own"),
      fault("raw_parity_never_flips", "phase", kLengths, kProducer, "parities ^= 1u << at.stage;",
            "", "cleans the second V of a stage too early"),
      fault("k_count_one_less", "count", kAny, kForward, "shared.k_ring.init(4 * C.warpgroups);",
            "shared.k_ring.init(4 * C.warpgroups - 1);", "K is overwritten under the last warp"),
      fault("v_count_one_more", "count", kAny, kForward, "shared.v_ring.init(4 * C.warpgroups);",
            "shared.v_ring.init(4 * C.warpgroups + 1);", "a stage of V is never free again"),
      fault("q_empty_count", "count", kAny, kForward, "ptx::mbarrier_init(&shared.q_empty[w], 4);",
            "ptx::mbarrier_init(&shared.q_empty[w], 1);",
            "one warp alone lets go of Q, and phases run ahead"),
      fault("queue_takers_one_less", "count", kAny, kConfig, "(C.cleans() ? 2 : 1)",
            "(C.cleans() ? 1 : 0)", "a tile's description is overwritten under its last reader"),
      fault("every_lane_releases", "count", kAny, kPipeline,
            "if (lane == 0) ptx::mbarrier_arrive(&empty[at.stage]);",
            "ptx::mbarrier_arrive(&empty[at.stage]);", "32 arrivals where one is expected"),
      fault("k_bytes_less", "bytes", kAny, kProducer,
            "shared.k_ring.acquire(at, S::KTile::kBytes);",
            "shared.k_ring.acquire(at, S::KTile::kBytes - 16);",
            "more bytes arrive than were announced"),
      fault("v_bytes_more", "bytes", kAny, kProducer, "v_full, S::VTile::kBytes);",
            "v_full, S::VTile::kBytes + 16);", "the announced bytes never come"),
      fault("v_lands_for_k", "barrier", kAny, kProducer,
            "load_tile<C>(shared.v[at.stage], p.v, v_full, both",
            "load_tile<C>(shared.v[at.stage], p.v, k_full, both", "V's bytes complete K's barrier"),
      fault("turn_count", "count", kTurns, kConsumer,
            "ptx::barrier_arrive(kBarrierTurn + next, 2 * kWarpgroupThreads);",
            "ptx::barrier_arrive(kBarrierTurn + next, kWarpgroupThreads);",
            "arrivals and waits of a named barrier disagree about its size"),
      fault("first_turn_not_given", "barrier", kTurns, kConsumer,
            "if (warpgroup == C.warpgroups - 1) end_turn<C, C.order>(warpgroup);", "",
            "everybody waits for a turn that nobody gives"),
      fault("last_v_not_released", "barrier", kAny, kConsumer,
            "shared.v_ring.leave(v_at, lane);\n      };", "v_at.advance();\n      };",
            "the stage is never free again"),
  };
}

std::vector<Mutant> order() {
  return {
      fault("k_released_early", "order", kAny, kConsumer,
            "ptx::wgmma_wait<0>();\n        ptx::pin(scores);\n        shared.k_ring.leave(k_at, "
            "lane);",
            "shared.k_ring.leave(k_at, lane);\n        ptx::wgmma_wait<0>();\n        "
            "ptx::pin(scores);",
            "K may be overwritten while the product reads it"),
      fault("v_released_early", "order", kAny, kConsumer,
            "ptx::wgmma_wait<0>();\n          ptx::pin(scores);\n          ptx::pin(output);\n     "
            "     "
            "shared.v_ring.leave(v_at, lane);",
            "shared.v_ring.leave(v_at, lane);\n          ptx::wgmma_wait<0>();\n          "
            "ptx::pin(scores);\n          ptx::pin(output);",
            "V may be overwritten while the product reads it"),
      fault("put_announced_early", "order", kAny, kPipeline,
            "items[at.stage] = item;\n    ptx::mbarrier_arrive(&full[at.stage]);",
            "ptx::mbarrier_arrive(&full[at.stage]);\n    items[at.stage] = item;",
            "a tile's description is read while it is written"),
      fault("barriers_not_ready", "barrier", kAny, kForward, "    __syncthreads();\n", "",
            "barriers are used that the first thread has not initialised"),
      fault("o_stored_unwritten", "barrier", kAny, kOutput,
            "ptx::fence_async_shared();\n    __syncwarp();", "ptx::fence_async_shared();",
            "the first lane stores O before the others have written it"),
      fault("o_written_unasked", "barrier", kAny, kOutput, "__syncwarp();\n    stage_rows",
            "stage_rows", "only the first lane knows that the store before has read O"),
      fault("queue_released_by_leader_alone", "barrier", {"forward_used"}, kConsumer,
            "__syncwarp();\n    if (leader) shared.queue.release(queue_at);",
            "if (leader) shared.queue.release(queue_at);",
            "other lanes may still read the tile's description"),
      fault("cleaned_by_leader_alone", "barrier", kLengths, kProducer,
            "ptx::fence_async_shared();\n      __syncwarp();\n      if (lane == 0) ptx::mbarrier_a",
            "ptx::fence_async_shared();\n      if (lane == 0) ptx::mbarrier_a",
            "other lanes may not have cleaned their part"),
      fault("bulk_not_committed", "commit", kAny, kOutput, "ptx::bulk_commit();", "",
            "waits for a group that the store is not in"),
      fault("scores_not_committed", "commit", kAny, kProducts,
            "(scores, q, k, step);\n  }\n  ptx::wgmma_commit();", "(scores, q, k, step);\n  }",
            "waits for a group that the product is not in"),
  };
}

std::vector<Mutant> fences() {
  return {
      fault("no_fence_of_init", "fence", kAny, kForward, "ptx::fence_mbarrier_init();", "",
            "copies complete on barriers whose initialisation they need not see"),
      fault("no_fence_of_scores", "fence", kAny, kProducts,
            "ptx::pin(q.registers);\n  ptx::wgmma_fence();", "ptx::pin(q.registers);",
            "registers of S are used by ordinary instructions before"),
      fault("no_fence_of_output", "fence", kAny, kProducts,
            "ptx::pin(probabilities);\n  ptx::wgmma_fence();", "ptx::pin(probabilities);",
            "P and O in registers are written by ordinary instructions before"),
      fault("no_fence_of_o", "fence", kAny, kOutput,
            "ptx::fence_async_shared();\n    __syncwarp();", "__syncwarp();",
            "the store reads by another path what ordinary instructions wrote"),
      fault("no_fence_of_clean_v", "fence", kLengths, kProducer,
            "ptx::fence_async_shared();\n      __syncwarp();", "__syncwarp();",
            "the product reads by another path what ordinary instructions wrote"),
  };
}

std::vector<Mutant> places() {
  return {
      fault("k_stride", "descriptor", kAny, kTile,
            "(u64{1} << 16) |\n         (descriptor_field(8 * 128) << 32)",
            "(u64{1} << 16) |\n         (descriptor_field(4 * 128) << 32)",
            "groups of 8 rows of K stand 1024 bytes apart"),
      fault("k_swizzle", "descriptor", kAny, kTile,
            "(u64{1} << 16) |\n         (descriptor_field(8 * 128) << 32) | (u64{1} << 62)",
            "(u64{1} << 16) |\n         (descriptor_field(8 * 128) << 32) | (u64{2} << 62)",
            "K lies in the swizzle of 128 bytes"),
      fault("v_leading", "descriptor", kTurns, kTile,
            "(descriptor_field(Tile::kPanelElements * 2) << 16)",
            "(descriptor_field(Tile::kPanelElements) << 16)",
            "panels of V stand twice as far apart"),
      fault("v_step", "descriptor", kAny, kWgmma, "kStepMnMajor = 16 * 128",
            "kStepMnMajor = 8 * 128", "a step is 16 keys"),
      fault("k_step", "descriptor", kAny, kWgmma, "kStepKMajor = 16 * 2", "kStepKMajor = 8 * 2",
            "a step is 16 elements of two bytes"),
      fault("v_not_transposed", "descriptor", kAny, kProducts,
            "ptx::wgmma_registers<1, 4>(Element{}, output",
            "ptx::wgmma_registers<0, 4>(Element{}, output", "V's rows are keys"),
      fault("panel_coordinate", "coordinate", kTurns, kProducer,
            "&map, barrier, panel * kPanelCols,", "&map, barrier, 0,",
            "the second panel is columns 64 and up"),
      fault("key_coordinate", "coordinate", kAny, kProducer, "first_key + n * C.tile_keys;",
            "first_key + n * C.tile_keys + 1;", "one key too far"),
      fault("q_coordinate", "coordinate", kAny, kProducer, "first + w * rows, work.head",
            "first, work.head", "every warpgroup gets the first one's rows"),
      fault("o_piece", "aliasing", kAny, kOutput,
            "staged.piece(warp * kRowsPerWarp + lane % 16, 2 * block + lane / 16)",
            "staged.piece(warp * 8 + lane % 16, 2 * block + lane / 16)",
            "warps write over each other's rows"),
      fault("one_stage_for_two", "aliasing", kAny, kProducer,
            "load_tile<C>(shared.k[at.stage], p.k, k_full", "load_tile<C>(shared.k[0], p.k, k_full",
            "all tiles of K land in the first stage"),
      fault("mask_off_by_one", "value", {"forward_causal"}, "attention/mask.cuh",
            "row + diagonal + right + 1)", "row + diagonal + right)", "the diagonal is seen"),
      fault("dirty_v", "value", kLengths, kProducer, "if constexpr (!C.cleans()) return false;",
            "return false;", "hidden values may be NaN"),
      fault("tile_skipped", "value", kAny, kConsumer, "i32 n = tiles.end - 1;",
            "i32 n = tiles.end - 2;", "who walks the ring counts another tile than who fills it"),
  };
}

/// Of the softmax under a product, and of the scores that are computed again.
std::vector<Mutant> overlap() {
  return {
      fault("k_not_awaited_under", "wait", kOverlap, kConsumer,
            "shared.k_ring.wait(k_at, k_ready);\n            shared", "shared",
            "the product may read K before the copy has landed"),
      fault("v_not_awaited_under", "wait", kOverlap, kConsumer,
            "shared.v_ring.wait(v_at, v_ready);\n            issue_scores", "issue_scores",
            "the product may read V before the copy has landed"),
      fault("scores_pending", "wait", kOverlap, kProducts, "ptx::wgmma_wait<1>();", "",
            "the scores' product may still be pending when they are read"),
      fault("output_pending", "wait", kOverlap, kProducts,
            "ptx::wgmma_wait_after<0>(partial, any_barrier);", "",
            "P is overwritten, and V let go, while the product may read them"),
      fault("let_go_for_others", "barrier", kOverlap, kProducts,
            "__syncwarp();  // one lane lets go of Q and K for all", "",
            "the first lane lets go of K while others may still read it"),
      fault("scores_not_again", "value", kOverlap, kConsumer, "if (!fits) {\n", "if (false) {\n",
            "the exponentials are taken for scores"),
      fault("scores_again_by_product", "wait", kOverlap, kConsumer, "if (fits) compute_scores();",
            "compute_scores();", "a product that not all warps of the warpgroup take part in"),
      fault("masked_tile_as_whole", "value", kOverlap, kConsumer,
            "(n - 1) * C.tile_keys >= whole.begin", "n * C.tile_keys >= whole.begin",
            "hidden keys count"),
      fault("q_let_go_twice", "count", kOverlap, kConsumer,
            "if (fits && leader && n == mine.begin)", "if (leader && n == mine.begin)",
            "Q is let go before a tile that is done again"),
  };
}

/// Of pairs of CTAs.
std::vector<Mutant> pairs() {
  return {
      fault("pair_copies_to_one", "bytes", kPair, kProducer, "barrier, 0b11,", "barrier, 0b01,",
            "the second CTA gets nothing"),
      fault("pair_brings_the_same", "aliasing", kPair, kProducer,
            "const int first = cta_rank<C>() * kRows;", "const int first = 0;",
            "both CTAs bring the same half"),
      fault("pair_lets_go_of_its_own", "barrier", kPair, kPipeline, "if (lane >= kCtas) return;",
            "if (lane >= 1) return;", "the second CTA is never told that a stage is free"),
      fault("pair_counts_one_cta", "count", kPair, kPipeline, "kCtas * consumer_warps",
            "consumer_warps", "the other CTA's consumers still read what is copied over"),
      fault("pair_leaves_early", "lifetime", kPair, kForward,
            "__syncwarp();\n    ptx::cluster_sync();", "",
            "the other CTA copies to one that is gone"),
      fault("pair_starts_early", "barrier", kPair, kForward,
            "if constexpr (C.pair) {\n    ptx::cluster_sync();\n  } else {",
            "if constexpr (C.pair) {\n    __syncthreads();\n  } else {",
            "arrivals come before the other CTA has made its barriers"),
      fault("pair_mail_overtaken", "wait", kPair, kPipeline,
            "ptx::mbarrier_wait(&empty[at.stage], at.parity ^ 1);\n    ptx::store_remote",
            "ptx::store_remote", "a number is overwritten before it has been read"),
      fault("pair_takes_the_same", "value", kPair, kSchedule,
            "work.first += static_cast<i32>(cta) * schedule.cta_rows;", "",
            "the second CTA does the first one's rows"),
      fault("pair_shares_nothing", "bytes", kPair, kSchedule,
            "if (!last) work.sharing = Sharing::kNothing;", "",
            "two heads' half tiles are taken for two tiles of rows"),
      fault("pair_last_head_alone", "value", kPair, kSchedule, "(last ? 2 : 1)", "1",
            "a head that is left alone is taken for a row of tiles"),
      fault("lanes_skip_apart", "barrier", kPair, kConsumer,
            "shared.v_ring.wait(v_at);\n      __syncwarp();", "shared.v_ring.wait(v_at);",
            "a lane may fall behind its ring's phases"),
  };
}

}  // namespace

std::vector<Mutant> forward_faults() {
  std::vector<Mutant> all;
  for (auto* part : {waits, phases_and_counts, order, fences, places, overlap, pairs}) {
    for (Mutant& m : part()) all.push_back(std::move(m));
  }
  return all;
}

}  // namespace fa4::emulator::mutants
