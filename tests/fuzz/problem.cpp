// SPDX-License-Identifier: BSD-3-Clause
#include "fuzz/problem.h"

#include <algorithm>
#include <sstream>

namespace fa4::fuzz {
namespace {

using test::Random;

struct Field {
  const char* name;
  int64_t Problem::*value;
};

constexpr Field kFields[] = {
    {"dtype", &Problem::dtype},
    {"packed_q", &Problem::packed_q},
    {"packed_k", &Problem::packed_k},
    {"batch", &Problem::batch},
    {"s_q", &Problem::s_q},
    {"s_k", &Problem::s_k},
    {"heads_k", &Problem::heads_k},
    {"group", &Problem::group},
    {"d", &Problem::d},
    {"d_v", &Problem::d_v},
    {"causal", &Problem::causal},
    {"window_left", &Problem::window_left},
    {"window_right", &Problem::window_right},
    {"softcap_milli", &Problem::softcap_milli},
    {"scale_milli", &Problem::scale_milli},
    {"dropout_milli", &Problem::dropout_milli},
    {"sink", &Problem::sink},
    {"bias", &Problem::bias},
    {"mask", &Problem::mask},
    {"bias_type", &Problem::bias_type},
    {"bias_hides", &Problem::bias_hides},
    {"alibi", &Problem::alibi},
    {"used_q", &Problem::used_q},
    {"used_k", &Problem::used_k},
    {"start_q", &Problem::start_q},
    {"start_k", &Problem::start_k},
    {"slack", &Problem::slack},
    {"dlse", &Problem::dlse},
    {"hidden_nan", &Problem::hidden_nan},
    {"strides", &Problem::strides},
    {"values", &Problem::values},
    {"threads", &Problem::threads},
    {"deterministic", &Problem::deterministic},
    {"batch_invariant", &Problem::batch_invariant},
    {"seed", &Problem::seed},
};

int64_t draw_length(Draw& draw) {
  if (draw.one_in(4)) return draw.below(140);
  if (draw.one_in(12)) return draw.one_of({191, 192, 193, 255, 256, 257, 300, 385, 513});
  return draw.one_of({0,  1,  1,  2,  3,  7,  8,  15, 16, 17,  31,  32,  33,
                      47, 48, 49, 63, 64, 65, 66, 96, 97, 127, 128, 129, 130});
}

int64_t draw_head_dim(Draw& draw) {
  if (draw.one_in(3)) return 1 + draw.below(draw.one_in(3) ? 256 : 64);
  return draw.one_of({1,  2,  3,  7,  8,  9,  15, 16,  17,  24,  31,  32,  33,  40, 63,
                      64, 64, 64, 65, 72, 80, 96, 127, 128, 128, 129, 192, 255, 256});
}

void draw_shape(Draw& draw, Problem& p) {
  p.packed_q = draw.one_in(4) ? 1 : 0;
  p.packed_k = draw.one_in(8) ? 1 - p.packed_q : p.packed_q;
  p.batch = draw.one_of({1, 1, 1, 2, 2, 3, 5});
  if (p.packed_q + p.packed_k > 0) p.batch = draw.one_of({0, 1, 2, 3, 4, 7});
  p.s_q = draw_length(draw);
  p.s_k = draw.one_in(3) ? p.s_q : draw_length(draw);
  if (draw.one_in(8)) {  // decode
    p.s_q = draw.one_of({1, 1, 1, 2, 4});
    p.s_k = draw.one_in(2) ? draw.below(600) : draw.below(4000);
  }
  p.heads_k = draw.one_of({1, 1, 1, 2, 2, 3, 4});
  p.group = draw.one_of({1, 1, 1, 2, 2, 3, 4, 5, 7, 8});
  p.d = draw_head_dim(draw);
  p.d_v = draw.one_in(3) ? draw_head_dim(draw) : p.d;
}

/// Makes the problem small enough for a dense oracle; one in 16 may be eight times larger.
void bound_work(Draw& draw, Problem& p) {
  const int64_t budget = draw.one_in(16) ? 12'000'000 : 1'500'000;
  const auto work = [&] {
    return std::max<int64_t>(p.batch, 1) * p.heads_k * p.group * p.s_q * p.s_k * (p.d + p.d_v);
  };
  int64_t Problem::*const shrinkable[] = {&Problem::group, &Problem::batch, &Problem::heads_k,
                                          &Problem::d,     &Problem::d_v,   &Problem::s_q,
                                          &Problem::s_k};
  while (work() > budget) {
    int64_t& n = p.*shrinkable[draw.below(7)];
    n = std::max<int64_t>(1, n - std::max<int64_t>(1, n / 3));
  }
}

void draw_masks(Draw& draw, Problem& p) {
  p.causal = draw.one_of({0, 0, 1, 1, 1, 2});
  const auto limit = [&] { return draw.one_of({0, 1, 2, 15, 16, 31, 63, 64, 65, 200, 100000}); };
  if (draw.one_in(4)) p.window_left = limit();
  if (draw.one_in(5)) p.window_right = limit();
  if (draw.one_in(5)) p.mask = 1 + draw.below(16);
  p.used_q = draw.one_in(5) ? 1 : 0;
  p.used_k = draw.one_in(4) ? 1 : 0;
  p.start_q = draw.one_in(7) ? 1 : 0;
  p.start_k = draw.one_in(7) ? 1 : 0;
  if (p.packed_q + p.packed_k > 0) p.slack = draw.one_of({0, 0, 1, 3});
  p.hidden_nan = draw.one_in(2) ? 1 : 0;
}

void draw_scores(Draw& draw, Problem& p) {
  if (draw.one_in(6)) p.softcap_milli = draw.one_of({500, 2000, 20000, 50000});
  if (draw.one_in(5)) p.scale_milli = draw.one_of({0, 1, 50, 125, 1000, -300});
  if (draw.one_in(6)) p.dropout_milli = draw.one_of({1, 100, 500, 900});
  if (draw.one_in(5)) p.sink = 1 + draw.below(4);
  if (draw.one_in(4)) p.bias = 1 + draw.below(16);
  p.bias_type = draw.one_in(3) ? 1 : 0;
  p.bias_hides = draw.one_in(4) ? 1 : 0;
  if (draw.one_in(6)) p.alibi = 1 + draw.below(2);
  p.dlse = draw.one_in(3) ? 1 : 0;
}

}  // namespace

Problem draw(uint64_t seed, uint64_t index) {
  std::seed_seq mixed{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                      static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32)};
  Draw draw{Random(mixed)};
  Problem p;
  p.dtype = draw.one_of({0, 0, 0, 1, 2, 2, 2, 3, 3});
  draw_shape(draw, p);
  bound_work(draw, p);
  draw_masks(draw, p);
  draw_scores(draw, p);
  if (draw.one_in(2)) p.strides = 1 + draw.below(1000);
  if (draw.one_in(2)) p.values = draw.below(static_cast<int64_t>(Values::kCount));
  p.threads = draw.one_of({1, 1, 2, 2, 3, 4});
  p.deterministic = draw.one_in(4) ? 1 : 0;
  p.batch_invariant = p.dropout_milli == 0 && draw.one_in(8) ? 1 : 0;
  p.seed = draw.below(1'000'000'000);
  return p;
}

std::string to_string(const Problem& problem) {
  const Problem plain;
  std::string text;
  for (const Field& field : kFields) {
    if (problem.*field.value == plain.*field.value) continue;
    if (!text.empty()) text += ' ';
    text += field.name;
    text += '=';
    text += std::to_string(problem.*field.value);
  }
  return text;
}

std::optional<Problem> parse(const std::string& text) {
  Problem problem;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const auto field = std::find_if(std::begin(kFields), std::end(kFields), [&](const Field& f) {
      return word.substr(0, equals) == f.name;
    });
    if (equals == std::string::npos || field == std::end(kFields)) return std::nullopt;
    problem.*field->value = std::strtoll(word.c_str() + equals + 1, nullptr, 10);
  }
  return problem;
}

std::vector<Problem> simpler(const Problem& problem) {
  const Problem plain;
  std::vector<Problem> candidates;
  for (const Field& field : kFields) {
    const int64_t now = problem.*field.value, goal = plain.*field.value;
    if (field.value == &Problem::seed) continue;
    for (int64_t next : {goal, goal + (now - goal) / 2, now > goal ? now - 1 : now}) {
      if (next == now) continue;
      Problem candidate = problem;
      candidate.*field.value = next;
      if (std::find(candidates.begin(), candidates.end(), candidate) == candidates.end()) {
        candidates.push_back(candidate);
      }
    }
  }
  return candidates;
}

}  // namespace fa4::fuzz
