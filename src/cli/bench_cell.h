// SPDX-License-Identifier: BSD-3-Clause
// The cells of the bench: what is timed, and what it counts as.
#pragma once

#include <fa4/plan.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fa4::cli {

enum class Kind { kPrefill, kDecode };

/// One problem at one thread count.
struct Cell {
  Kind kind = Kind::kPrefill;
  Pass pass = Pass::kForward;
  DType dtype = DType::kFloat32;
  int64_t batch = 1, s_q = 2048, s_k = 2048, heads_q = 8, heads_k = 8, d = 64;
  bool causal = false;
  int threads = 1;

  /// "prefill/bf16/d128/causal/backward/t1", "decode/fp32/g8/t2": what --filter sees.
  std::string name() const;
  /// 4 * b * h * s_q * s_k * d, halved when causal; the backward 2.5 times that.
  double flops() const;
  /// Bytes of k and v: what a decode step has to read.
  double kv_bytes() const;
  bool is_16_bit() const { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }
};

/// What the user may change of the grid.
struct GridOptions {
  int64_t seqlen = 2048;
  int64_t batch = 1;
  int64_t heads = 8;
  std::vector<DType> dtypes{DType::kFloat32, DType::kBFloat16};
  std::vector<int64_t> dims{64, 128};
  std::vector<int> threads;
  std::string filter;        ///< A regular expression that a name must contain; empty = all.
  int64_t decode_bytes = 0;  ///< k and v of a decode cell are at least this large.
};

/// Throws UsageError for a bad filter.
std::vector<Cell> make_grid(const GridOptions& options);

}  // namespace fa4::cli
