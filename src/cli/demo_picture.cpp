// SPDX-License-Identifier: BSD-3-Clause
#include "cli/demo_picture.h"

#include <fa4/attention.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "cli/array.h"
#include "cli/terminal.h"

namespace fa4::cli {
namespace {

constexpr double kWorthNaming = 0.2;  // A key with this probability is named behind its row.

struct Shade {
  double at_least;
  const char* glyph;
  int color;  // Of the terminal's 256; each can be told from a dark and from a light background.
};
constexpr std::array<Shade, 6> kShades = {{
    {0.50, "█", 208},
    {0.25, "▓", 203},
    {0.12, "▒", 168},
    {0.05, "░", 133},
    {0.02, "·", 61},
    {0.00, " ", 0},
}};

const Shade& shade_of(double p) {
  return *std::find_if(kShades.begin(), kShades.end(),
                       [p](const Shade& shade) { return p >= shade.at_least || shade.color == 0; });
}

std::string cell(const Shade& shade, bool color) {
  if (!color || shade.color == 0) return shade.glyph;
  return fmt::format("\x1b[38;5;{}m{}\x1b[0m", shade.color, shade.glyph);
}

size_t widest(const std::vector<std::string>& tokens) {
  size_t width = 0;
  for (const std::string& token : tokens) width = std::max(width, token.size());
  return width;
}

/// The keys' tokens, written downwards above their columns.
std::string column_names(const DemoMaps& maps) {
  const size_t width = widest(maps.tokens);
  std::string text;
  for (size_t line = 0; line < width; ++line) {
    std::string names;
    for (const std::string& token : maps.tokens) {
      const size_t gap = width - token.size();  // Names stand on the picture.
      names += line < gap ? ' ' : token[line - gap];
    }
    text += fmt::format("  {:{}} {}\n", "", width, names);
  }
  return text;
}

bool is_special(const std::string& token) { return token.front() == '[' && token.size() > 1; }

/// " → violinist 61%", if some word is worth naming.
std::string strongest(const DemoMaps& maps, const float* row, int64_t query) {
  int64_t best = -1;
  for (int64_t key = 0; key < maps.size(); ++key) {
    if (key == query || is_special(maps.tokens[key])) continue;
    if (best < 0 || row[key] > row[best]) best = key;
  }
  if (best < 0 || static_cast<double>(row[best]) < kWorthNaming) return "";
  return fmt::format(" → {} {:.0f}%", maps.tokens[best], 100 * row[best]);
}

}  // namespace

DemoMaps make_demo_maps(const DemoFixture& fixture, size_t text, int threads) {
  DemoMaps maps;
  maps.text = text;
  maps.tokens = fixture.texts[text].tokens;
  const int64_t layers = fixture.layers, h = fixture.heads, d = fixture.head_dim, s = maps.size();
  maps.probabilities = Array(DType::kFloat32, {layers, h, s, s});

  Array q(DType::kFloat32, {1, s, h, d}), k(DType::kFloat32, {1, s, h, d});
  Array identity(DType::kFloat32, {s, s}), out(DType::kFloat32, {1, s, h, s});
  for (int64_t i = 0; i < s; ++i) set(identity, i * s + i, 1);
  const Tensor v = Tensor::strided(identity.data(), DType::kFloat32, {1, s, h, s},
                                   {0, s, 0, 1});  // All heads share it.
  AttentionOptions options;
  options.threads = threads;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const int64_t first = (layer * fixture.total() + fixture.cu_seqlens[text]) * h * d;
    for (int64_t i = 0; i < s * h * d; ++i) {
      q.as<float>()[i] = to_float(fixture.q[first + i]);
      k.as<float>()[i] = to_float(fixture.k[first + i]);
    }
    attention(q.view(), k.view(), v, out.view(), {}, options).check();
    for (int64_t row = 0; row < s * h; ++row) {  // A row of out is (query, head).
      const float* from = out.as<float>() + row * s;
      std::copy(from, from + s,
                maps.probabilities.as<float>() + ((layer * h + row % h) * s + row / h) * s);
      const double error = std::abs(std::accumulate(from, from + s, 0.0) - 1);
      maps.row_sum_error = std::isnan(error) ? HUGE_VAL : std::max(maps.row_sum_error, error);
    }
  }
  return maps;
}

void print_demo_head(const DemoMaps& maps, int64_t layer, int64_t head) {
  const bool color = may_colour(stdout);
  const size_t width = widest(maps.tokens);
  fmt::print("{}: where each token (line) looks (columns)\n{}",
             paint(fmt::format("Layer {}, head {}", layer, head), Style::kTitle),
             column_names(maps));
  for (int64_t query = 0; query < maps.size(); ++query) {
    const float* row = maps.row(layer, head, query);
    std::string cells;
    for (int64_t key = 0; key < maps.size(); ++key) {
      cells += cell(shade_of(static_cast<double>(row[key])), color);
    }
    fmt::print("  {:>{}} {}{}\n", maps.tokens[query], width, cells, strongest(maps, row, query));
  }
  fmt::print("  {:>{}} from:", "", width);
  for (auto shade = kShades.rbegin() + 1; shade != kShades.rend(); ++shade) {
    fmt::print("  {} {:.0f}%", cell(*shade, color), 100 * shade->at_least);
  }
  fmt::print("\n\n");
}

}  // namespace fa4::cli
