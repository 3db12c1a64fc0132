// SPDX-License-Identifier: BSD-3-Clause
#include "cli/bench_cell.h"

#include <fmt/core.h>

#include "cli/array.h"
#include "cli/name_filter.h"

namespace fa4::cli {
namespace {

/// Keys so that k and v have at least `bytes`, a multiple of 1024.
int64_t decode_keys(int64_t bytes, const Cell& cell) {
  const int64_t per_key = 2 * cell.batch * cell.heads_k * cell.d * size_of(cell.dtype);
  return (bytes / per_key + 1024) / 1024 * 1024;
}

void add_prefill(const GridOptions& options, int threads, std::vector<Cell>& cells) {
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    for (const DType dtype : options.dtypes) {
      for (const int64_t d : options.dims) {
        for (const bool causal : {false, true}) {
          cells.push_back({Kind::kPrefill, pass, dtype, options.batch, options.seqlen,
                           options.seqlen, options.heads, options.heads, d, causal, threads});
        }
      }
    }
  }
}

void add_decode(const GridOptions& options, int threads, std::vector<Cell>& cells) {
  constexpr int64_t kDim = 128, kHeadsK = 8;
  for (const DType dtype : options.dtypes) {
    for (const int64_t group : {1, 8}) {
      Cell cell{Kind::kDecode,   Pass::kForward, dtype, 1,     1,      0,
                kHeadsK * group, kHeadsK,        kDim,  false, threads};
      cell.s_k = decode_keys(options.decode_bytes, cell);
      cells.push_back(cell);
    }
  }
}

}  // namespace

std::string Cell::name() const {
  if (kind == Kind::kDecode) {
    return fmt::format("decode/{}/g{}/t{}", short_name(dtype), heads_q / heads_k, threads);
  }
  return fmt::format("prefill/{}/d{}/{}/{}/t{}", short_name(dtype), d, causal ? "causal" : "full",
                     pass == Pass::kForward ? "forward" : "backward", threads);
}

double Cell::flops() const {
  const double all = 4.0 * static_cast<double>(batch * heads_q) * static_cast<double>(s_q * s_k) *
                     static_cast<double>(d);
  return all * (causal ? 0.5 : 1) * (pass == Pass::kBackward ? 2.5 : 1);
}

double Cell::kv_bytes() const {
  return 2.0 * static_cast<double>(batch * s_k * heads_k * d * size_of(dtype));
}

std::vector<Cell> make_grid(const GridOptions& options) {
  std::vector<Cell> all;
  for (const int threads : options.threads) {
    add_prefill(options, threads, all);
    add_decode(options, threads, all);
  }
  const NameFilter wanted = name_filter("--filter", options.filter);
  std::erase_if(all, [&](const Cell& cell) { return !wanted(cell.name()); });
  return all;
}

}  // namespace fa4::cli
