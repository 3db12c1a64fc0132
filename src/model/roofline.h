// SPDX-License-Identifier: BSD-3-Clause
// Cycles that one tile of attention costs on each unit of a GPU's multiprocessor.
//
// A roofline in cycles: every unit has a throughput per cycle and multiprocessor, a tile asks each
// for a number of operations or bytes, and no kernel can be faster than its busiest unit.
// docs/roofline.md derives the counts. bf16 operands, fp32 accumulators.
//
// Source: FlashAttention-4 (arXiv 2603.05451), sections 3.1.1 and 3.2.1 to 3.2.3.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fa4::model {

/// Output rows and columns of one matrix instruction, or of one warp's share where operands are
/// loaded into registers first: an operand is read from shared memory once for each of them.
struct MmaShape {
  int64_t rows = 0;
  int64_t cols = 0;
};

/// A chip, per multiprocessor and cycle.
struct Chip {
  const char* name;
  const char* architecture;
  int multiprocessors;
  double clock_ghz;      ///< The clock at which `multiprocessors` give the data sheet's peak.
  int64_t mma_flops;     ///< Dense bf16.
  int64_t shared_bytes;  ///< Shared memory, reads and writes together.
  int64_t exps;          ///< Exponential unit (MUFU).
  MmaShape mma_forward;
  MmaShape mma_backward;
  bool cta_pairs;               ///< Two CTAs can do one MMA, each holding half of its B operand.
  bool operands_bypass_shared;  ///< P and dS reach dV's and dK's products in registers or tensor
                                ///< memory; else through shared memory.
  bool dq_through_shared;       ///< dQ leaves by bulk reductions from shared memory; else from
                                ///< registers.
};

/// A100, H100, B200, B300.
std::span<const Chip> chips();
/// The chip called `name`, any case; null if there is none.
const Chip* find_chip(const std::string& name);

enum class Direction { kForward, kBackward };

/// One step of a kernel's inner loop: `rows` queries against `cols` keys.
struct Tile {
  Direction direction = Direction::kForward;
  int64_t rows = 128;
  int64_t cols = 128;
  int64_t dim_qk = 128;
  int64_t dim_v = 128;
  bool cta_pair = false;  ///< Two CTAs share the work; all figures are for one of them, whose own
                          ///< tile is rows x cols. Forward: the pair has 2 * rows queries.
                          ///< Backward: 2 * cols keys.
};

/// One reason for shared-memory traffic.
struct Traffic {
  std::string what;
  int64_t bytes = 0;
};

struct Cycles {
  double mma = 0;
  double shared = 0;
  double exp = 0;
  std::vector<Traffic> traffic;  ///< What `shared` is made of.

  double slowest() const;
  /// "MMA", "shared memory", "exponential", or several joined with " + " when they are equal.
  std::string bottleneck() const;
};

/// Empty if the model can describe `tile` on `chip`, else what is wrong with it.
std::string problem_with(const Chip& chip, const Tile& tile);

/// The model. `tile` must be one that problem_with() accepts.
Cycles cycles(const Chip& chip, const Tile& tile);

/// Flops that attention counts for the tile: 2 * rows * cols for each element of each product.
int64_t flops(const Tile& tile);

/// TFLOP/s of the whole chip if every multiprocessor runs at the pace of its busiest unit.
double attainable_tflops(const Chip& chip, const Tile& tile);

}  // namespace fa4::model
