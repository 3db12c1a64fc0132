// SPDX-License-Identifier: BSD-3-Clause
#include "fuzz/kernel_problems.h"

#include <algorithm>

#include "core/problem.h"

namespace fa4::fuzz {
namespace {

using gpu::sm90::ForwardConfig;
using gpu::sm90::Scalar;

/// Of the numbers of keys at which the choice of a tile changes; see the table of tiles.
constexpr int64_t kBounds[] = {0, 2048, 4096, 6143};

int64_t rows_of_tile(const ForwardConfig& config, int64_t group) {
  return config.warpgroups * gpu::sm90::pack_rows(config, group);
}

/// Keys: `least` or more.
void draw_lengths(Draw& draw, const ForwardConfig& config, bool is_long, int64_t least,
                  Problem& p) {
  if (config.varlen) {
    // Some of the ways that sequences come to have lengths of their own.
    p.packed_q = draw.below(2);
    p.packed_k = draw.one_in(4) ? 1 - p.packed_q : p.packed_q;
    p.used_q = draw.one_in(3) ? 1 : 0;
    p.used_k = draw.one_in(3) ? 1 : 0;
    p.start_q = draw.one_in(5) ? 1 : 0;
    p.start_k = draw.one_in(5) ? 1 : 0;
    if (p.packed_q + p.packed_k + p.used_q + p.used_k + p.start_q + p.start_k == 0) p.used_k = 1;
    if (p.packed_q + p.packed_k > 0) p.slack = draw.one_of({0, 0, 1, 3});
  }
  const int64_t rows = rows_of_tile(config, p.group), keys = config.tile_keys;
  if (is_long) {
    p.batch = config.varlen ? draw.one_of({1, 2}) : 1;
    p.heads_k = 1;
    p.s_q = 2 * rows + 1 + draw.below(rows);
    p.s_k = std::max(least, 2 * keys) + 1 + draw.below(2 * keys);
  } else {
    p.batch = draw.one_of({1, 1, 2, 3});
    p.s_q = draw.one_of({1, 2, 17, 63, 64, 65, rows - 1, rows, rows + 1, 2 * rows});
    // A pair's rows are more than one CTA's, with and without half a tile.
    if (config.pair) {
      p.batch = 1;
      p.s_q = rows + draw.one_of({1, 30, rows, rows + 1, rows + rows / 2});
    }
    p.s_k = least + draw.one_of({1, 2, keys - 1, keys, keys + 1, 2 * keys, 1 + draw.below(300)});
  }
  if (draw.one_in(3)) p.hidden_nan = 1;
}

void draw_band(Draw& draw, const ForwardConfig& config, Problem& p) {
  if (config.right) p.causal = draw.one_of({0, 1, 1, 1, 2});
  if (config.right && p.causal == 0) p.window_right = draw.one_of({0, 1, 31, 64, 200});
  if (config.left) p.window_left = draw.one_of({0, 1, 33, 64, 127, 300});
}

void draw_scores(Draw& draw, const ForwardConfig& config, Problem& p) {
  const gpu::sm90::ScoreConfig& score = config.score;
  if (score.softcap) p.softcap_milli = draw.one_of({500, 2000, 20000});
  if (score.alibi) p.alibi = 1 + draw.below(2);
  if (score.mask) p.mask = 1 + draw.below(16);
  if (score.bias != Scalar::kAbsent) {
    p.bias = 1 + draw.below(16);
    p.bias_hides = draw.one_in(3) ? 1 : 0;
    if (score.bias == Scalar::kFloat32) p.bias_type = 1;
    if (score.bias == Scalar::kFloat64) p.bias_type = 2;
  }
  if (draw.one_in(5)) p.scale_milli = draw.one_of({1, 50, 125, 1000, -300});
  if (draw.one_in(4)) p.sink = 1 + draw.below(4);
}

Problem draw_near(const ForwardConfig& config, bool is_long, int64_t least_keys, Draw& draw) {
  Problem p;
  p.dtype = config.dtype == DType::kBFloat16 ? 2 : 3;
  // The padding to a multiple of 16 is a kernel's too.
  p.d = config.dim_qk - (draw.one_in(4) ? 8 : 0);
  p.d_v = config.dim_v - (draw.one_in(4) ? 8 : 0);
  p.heads_k = draw.one_of({1, 1, 1, 2});
  p.group = config.packed ? draw.one_of({2, 3, 4, 5, 8}) : draw.one_of({1, 1, 1, 1, 2});
  draw_lengths(draw, config, is_long, least_keys, p);
  draw_band(draw, config, p);
  draw_scores(draw, config, p);
  if (draw.one_in(3)) p.strides = 1 + draw.below(1000);
  if (draw.one_in(2)) p.values = draw.below(static_cast<int64_t>(Values::kCount));
  p.seed = draw.below(1'000'000'000);
  return p;
}

const std::vector<ForwardConfig>& configs() {
  static const std::vector<ForwardConfig> all = gpu::sm90::all_forward_configs();
  return all;
}

}  // namespace

int64_t pair_keys = gpu::kPairKeys;

std::optional<ForwardConfig> kernel_of(const Problem& problem) {
  const auto valid = core::validate(problem_of(problem));
  if (!valid.ok() || !gpu::sm90::unsupported_forward(*valid).empty()) return std::nullopt;
  return gpu::sm90::choose_forward(*valid, pair_keys);
}

bool is_long(const Problem& problem, const ForwardConfig& config) {
  return problem.s_q > 2 * rows_of_tile(config, problem.group) &&
         problem.s_k > 2 * config.tile_keys;
}

Problem draw_for_kernel(uint64_t seed, uint64_t index) {
  constexpr uint32_t kAttempts = 400, kAttemptsOfBound = 50;
  const ForwardConfig& config = configs()[index % configs().size()];
  const bool wants_long = index / configs().size() % 2 == 0;
  Problem problem;
  for (uint32_t attempt = 0; attempt < kAttempts; ++attempt) {
    std::seed_seq mixed{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                        static_cast<uint32_t>(index), attempt};
    Draw draw{test::Random(mixed)};
    // As few keys as the configuration is chosen for.
    int64_t least = kBounds[attempt / kAttemptsOfBound % std::size(kBounds)];
    if (config.pair) least = std::min(least, pair_keys);
    problem = draw_near(config, wants_long, least, draw);
    if (kernel_of(problem) == config && (!wants_long || is_long(problem, config))) break;
  }
  return problem;
}

}  // namespace fa4::fuzz
