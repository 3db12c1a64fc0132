// SPDX-License-Identifier: BSD-3-Clause
// fa4 roofline: where the cycles of one attention tile go on a GPU.
#include "model/roofline.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/terminal.h"

namespace fa4::cli {
namespace {

using model::Chip;
using model::Cycles;
using model::Direction;
using model::Tile;

struct RooflineRequest {
  std::string chip;
  std::string pass = "both";
  std::optional<int64_t> tile_m, tile_n;
  int64_t head_dim = 128;
  std::optional<int64_t> head_dim_v;
  bool two_cta = false;
  bool json = false;
};

std::string format_cycles(double cycles) { return fmt::format("{:.0f}", cycles); }

/// A unit's cycles, marked if it is the slowest.
std::string unit_cell(double unit, const Cycles& c) {
  return paint(format_cycles(unit), unit == c.slowest() ? Style::kBad : Style::kPlain);
}

std::string name_of(Direction direction) {
  return direction == Direction::kForward ? "forward" : "backward";
}

std::string shape_of(const Tile& t) {
  const std::string dims =
      t.dim_qk == t.dim_v ? fmt::format("{}", t.dim_qk) : fmt::format("({},{})", t.dim_qk, t.dim_v);
  return fmt::format("{}x{}x{}", t.rows, t.cols, dims);
}

std::vector<Tile> tiles_of(const RooflineRequest& request) {
  const int64_t dim_v = request.head_dim_v.value_or(request.head_dim);
  const int64_t cols = request.tile_n.value_or(128);
  const bool chosen = request.tile_m.has_value() || request.two_cta;
  std::vector<Tile> tiles;
  const auto add = [&](Direction direction, int64_t rows, bool pair) {
    tiles.push_back({direction, rows, cols, request.head_dim, dim_v, pair});
  };
  if (request.pass != "backward") {
    add(Direction::kForward, request.tile_m.value_or(128), request.two_cta);
    if (!chosen) add(Direction::kForward, 256, false);
  }
  if (request.pass != "forward") {
    add(Direction::kBackward, request.tile_m.value_or(128), request.two_cta);
    if (!chosen) add(Direction::kBackward, 128, true);
  }
  return tiles;
}

struct Row {
  const Chip* chip;
  Tile tile;
  Cycles cycles;
};

/// Rows for every chip and tile. Chips without CTA pairs have no rows for them, unless the user
/// named both.
std::vector<Row> rows_of(const RooflineRequest& request) {
  std::vector<Row> rows;
  for (const Chip& chip : model::chips()) {
    if (!request.chip.empty() && &chip != model::find_chip(request.chip)) continue;
    for (const Tile& tile : tiles_of(request)) {
      const bool named = !request.chip.empty() && request.two_cta;
      if (tile.cta_pair && !chip.cta_pairs && !named) continue;
      const std::string problem = model::problem_with(chip, tile);
      if (!problem.empty()) throw UsageError(problem);
      rows.push_back({&chip, tile, model::cycles(chip, tile)});
    }
  }
  return rows;
}

void print_table(const std::vector<Row>& rows) {
  Table table({{"chip", Align::kLeft},
               {"pass", Align::kLeft},
               {"tile MxNxD", Align::kLeft},
               {"CTAs", Align::kRight},
               {"MMA", Align::kRight},
               {"shared", Align::kRight},
               {"exp", Align::kRight},
               {"bottleneck", Align::kLeft},
               {"TFLOP/s at most", Align::kRight}});
  const Chip* last = nullptr;
  for (const Row& row : rows) {
    if (last != nullptr && last != row.chip) table.add_rule();
    const Cycles& c = row.cycles;
    table.add_row({last == row.chip ? "" : paint(row.chip->name, Style::kTitle),
                   name_of(row.tile.direction), shape_of(row.tile), row.tile.cta_pair ? "2" : "1",
                   unit_cell(c.mma, c), unit_cell(c.shared, c), unit_cell(c.exp, c), c.bottleneck(),
                   fmt::format("{:.0f}", model::attainable_tflops(*row.chip, row.tile))});
    last = row.chip;
  }
  table.print();
  if (std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.tile.cta_pair; })) {
    fmt::print(
        "  2 CTAs: a pair shares each product; tile and cycles are those of one of the two.\n");
  }
}

void print_traffic(const Row& row) {
  fmt::print("\n{}\n\n",
             paint(fmt::format("Shared-memory traffic of {}, {} {} on {}",
                               row.tile.cta_pair ? "each CTA of a pair" : "one CTA",
                               name_of(row.tile.direction), shape_of(row.tile), row.chip->name),
                   Style::kBold));
  Table table({{"what", Align::kLeft}, {"KiB"}, {"cycles"}});
  int64_t bytes = 0;
  const auto add = [&](const std::string& what, int64_t n) {
    table.add_row(
        {what, fmt::format("{:.1f}", static_cast<double>(n) / 1024),
         format_cycles(static_cast<double>(n) / static_cast<double>(row.chip->shared_bytes))});
  };
  for (const model::Traffic& traffic : row.cycles.traffic) {
    add(traffic.what, traffic.bytes);
    bytes += traffic.bytes;
  }
  table.add_rule();
  add("sum", bytes);
  table.print();
}

void print_units(const std::vector<Row>& rows) {
  fmt::print("\n");
  const Chip* last = nullptr;
  for (const Row& row : rows) {
    if (row.chip == last) continue;
    last = row.chip;
    fmt::print(
        "  {:<5} {} bf16 flop, {} B of shared memory, {} exp a cycle and multiprocessor; {} "
        "of them at {:.2f} GHz\n",
        last->name, last->mma_flops, last->shared_bytes, last->exps, last->multiprocessors,
        last->clock_ghz);
  }
}

nlohmann::json to_json(const Row& row) {
  nlohmann::json traffic = nlohmann::json::array();
  for (const model::Traffic& t : row.cycles.traffic) {
    traffic.push_back({{"what", t.what}, {"bytes", t.bytes}});
  }
  return {{"chip", row.chip->name},
          {"pass", name_of(row.tile.direction)},
          {"tile_m", row.tile.rows},
          {"tile_n", row.tile.cols},
          {"head_dim", row.tile.dim_qk},
          {"head_dim_v", row.tile.dim_v},
          {"ctas", row.tile.cta_pair ? 2 : 1},
          {"mma_cycles", row.cycles.mma},
          {"shared_memory_cycles", row.cycles.shared},
          {"exp_cycles", row.cycles.exp},
          {"bottleneck", row.cycles.bottleneck()},
          {"attainable_tflops", model::attainable_tflops(*row.chip, row.tile)},
          {"shared_memory_traffic", traffic}};
}

void add_flags(CommandLine& line, RooflineRequest& request) {
  const auto chip = [](const std::string& name) {
    return model::find_chip(name) != nullptr
               ? std::string()
               : fmt::format("{} is unknown; known: A100 H100 B200 B300", name);
  };
  line.add("--chip", request.chip, "A100, H100, B200 or B300 (default: all)").check(chip);
  line.add("--pass", request.pass, "forward, backward or both (default: both)")
      .one_of({"forward", "backward", "both"})
      .type("PASS");
  line.add("--tile-m", request.tile_m, "Queries of a tile (default: 128, and 256 forward)");
  line.add("--tile-n", request.tile_n, "Keys of a tile (default: 128)");
  line.add("--head-dim", request.head_dim, "Head dim (default: 128)");
  line.add("--head-dim-v", request.head_dim_v, "Head dim of v (default: --head-dim)");
  line.add("--two-cta", request.two_cta, "A pair of CTAs shares the tile's products (B200, B300)");
  line.add("--json", request.json, "Print JSON");
}

}  // namespace

int roofline_command(int argc, char** argv) {
  CommandLine line(
      "fa4 roofline",
      "Says how many cycles one tile of attention keeps each unit of a GPU busy: the matrix\n"
      "unit, shared memory and the exponential unit. docs/roofline.md derives the formulas.");
  RooflineRequest request;
  add_flags(line, request);
  line.examples({"roofline", "roofline --chip B200 --pass backward --two-cta",
                 "roofline --chip H100 --tile-m 128 --tile-n 176 --pass forward",
                 "roofline --head-dim 64 --json"});
  if (const auto code = line.parse(argc, argv)) return *code;

  const std::vector<Row> rows = rows_of(request);
  if (request.json) {
    nlohmann::json json = nlohmann::json::array();
    for (const Row& row : rows) json.push_back(to_json(row));
    fmt::print("{}\n", json.dump(2));
    return kExitOk;
  }
  fmt::print("{}\n\n", paint("Cycles of one tile, per CTA (bf16)", Style::kBold));
  print_table(rows);
  print_units(rows);
  if (!request.chip.empty()) {
    for (const Row& row : rows) print_traffic(row);
  } else {
    fmt::print("\n  --chip NAME shows what the shared-memory cycles are made of.\n");
  }
  return kExitOk;
}

}  // namespace fa4::cli
