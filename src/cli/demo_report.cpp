// SPDX-License-Identifier: BSD-3-Clause
#include "cli/demo_report.h"

#include <fa4/version.h>
#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/cpu_info.h"
#include "cli/terminal.h"

namespace fa4::cli {
namespace {

constexpr auto kPadded = static_cast<size_t>(DemoLayout::kPadded);
constexpr auto kPacked = static_cast<size_t>(DemoLayout::kPacked);
constexpr int kForwardProducts = 2;  // Q K^T and P V
constexpr int kBackwardProducts = 5;
constexpr double kRowSumBound = 1e-5;  // Of float32 sums of up to 256 terms.

/// 171000 -> "171k"
std::string short_count(double x) {
  if (x >= 1e6) return fmt::format("{:.2f}M", x / 1e6);
  if (x >= 1e3) return fmt::format("{:.0f}k", x / 1e3);
  return fmt::format("{:.0f}", x);
}

std::string short_bytes(double bytes) {
  constexpr double kKibi = 1024, kMebi = kKibi * kKibi;
  if (bytes >= kMebi) return fmt::format("{:.1f} MiB", bytes / kMebi);
  return fmt::format("{:.1f} KiB", bytes / kKibi);
}

/// Floating-point operations of one layer. Only scores between tokens of one text count: padding
/// is no work done.
double layer_flops(const DemoFixture& fixture, int products) {
  return 2.0 * products * static_cast<double>(fixture.heads * fixture.head_dim) *
         static_cast<double>(fixture.scores_per_head());
}

/// One score matrix of the padded batch in float32.
double score_bytes(const DemoFixture& fixture) {
  return static_cast<double>(sizeof(float)) * static_cast<double>(fixture.texts.size()) *
         static_cast<double>(fixture.heads * fixture.longest() * fixture.longest());
}

std::string lengths_text(const DemoFixture& fixture) {
  std::string text;
  for (size_t i = 0; i < fixture.texts.size(); ++i) {
    const char* between = i == 0 ? "" : i + 1 == fixture.texts.size() ? " and " : ", ";
    text += fmt::format("{}{}", between, fixture.length(i));
  }
  return text;
}

std::string error_text(double error) { return fmt::format("{:.1e}", error); }

std::string difference_text(double difference) {
  return difference == 0 ? "none" : error_text(difference);
}

std::string bound_text(double of_bound) {
  return paint(fmt::format("{:.0f}%", 100 * of_bound), of_bound <= 1 ? Style::kGood : Style::kBad);
}

bool starts_dtype(const std::vector<DemoLayer>& layers, size_t i) {
  return i == 0 || layers[i - 1].dtype != layers[i].dtype;
}

/// The cells that a row of either table begins and ends with.
std::vector<std::string> first_cells(const std::vector<DemoLayer>& layers, size_t i) {
  return {starts_dtype(layers, i) ? to_string(layers[i].dtype) : "",
          fmt::format("{}", layers[i].layer)};
}

template <class Pass>
void add_speed_cells(std::vector<std::string>& row, const DemoFixture& fixture, const Pass& pass,
                     int products) {
  const double packed = pass.seconds[kPacked];
  row.push_back(fmt::format("{:.0f}", 1e6 * pass.seconds[kPadded]));
  row.push_back(fmt::format("{:.0f}", 1e6 * packed));
  row.push_back(short_count(static_cast<double>(fixture.total()) / packed));
  row.push_back(fmt::format("{:.1f}", layer_flops(fixture, products) / packed / 1e9));
}

std::vector<Table::Column> columns(std::initializer_list<const char*> errors) {
  std::vector<Table::Column> list = {{"dtype", Align::kLeft}, {"layer"}};
  for (const char* error : errors) list.push_back({error});
  for (const char* title :
       {"of bound", "layouts", "padded us", "packed us", "tokens/s", "GFLOP/s"}) {
    list.push_back({title});
  }
  return list;
}

void print_forward(const DemoResults& results) {
  const DemoFixture& fixture = *results.fixture;
  Table table(columns({"to torch", "to fp64", "plain"}));
  for (size_t i = 0; i < results.layers.size(); ++i) {
    const DemoForward& forward = results.layers[i].forward;
    if (i > 0 && starts_dtype(results.layers, i)) table.add_rule();
    std::vector<std::string> row = first_cells(results.layers, i);
    row.push_back(error_text(forward.torch.error));
    row.push_back(error_text(forward.exact.error));
    row.push_back(error_text(forward.exact.plain));
    row.push_back(bound_text(forward.worst_of_bound()));
    row.push_back(difference_text(forward.difference));
    add_speed_cells(row, fixture, forward, kForwardProducts);
    table.add_row(std::move(row));
  }
  fmt::print("{}: largest error of out; time of one layer\n", paint("Forward", Style::kTitle));
  table.print();
  fmt::print("\n");
}

void print_backward(const DemoResults& results) {
  const DemoFixture& fixture = *results.fixture;
  const auto without = std::find_if(results.layers.begin(), results.layers.end(),
                                    [](const DemoLayer& layer) { return !layer.backward; });
  if (without != results.layers.end()) {
    fmt::print("{}: not available in {}: {}\n\n", paint("Backward", Style::kTitle),
               to_string(without->dtype), without->no_backward);
    return;
  }
  Table table(columns({"dq", "dk", "dv"}));
  for (size_t i = 0; i < results.layers.size(); ++i) {
    const DemoBackward& backward = *results.layers[i].backward;
    if (i > 0 && starts_dtype(results.layers, i)) table.add_rule();
    std::vector<std::string> row = first_cells(results.layers, i);
    for (const DemoError* error : {&backward.dq, &backward.dk, &backward.dv}) {
      row.push_back(error_text(error->error));
    }
    row.push_back(bound_text(backward.worst_of_bound()));
    row.push_back(difference_text(backward.difference));
    add_speed_cells(row, fixture, backward, kBackwardProducts);
    table.add_row(std::move(row));
  }
  fmt::print("{}: largest error of the gradients to fp64, dout normal with seed {}\n",
             paint("Backward", Style::kTitle), results.seed);
  table.print();
  fmt::print("\n");
}

size_t largest_workspace(const DemoResults& results) {
  size_t bytes = 0;
  for (const DemoLayer& layer : results.layers) {
    bytes = std::max(bytes, layer.forward.workspace_bytes);
    if (layer.backward) bytes = std::max(bytes, layer.backward->workspace_bytes);
  }
  return bytes;
}

nlohmann::json error_json(const DemoError& error) {
  return {{"error", error.error}, {"plain", error.plain}, {"of_bound", error.of_bound}};
}

template <class Pass>
void add_common_json(nlohmann::json& run, const DemoFixture& fixture, const Pass& pass,
                     int products) {
  run["layouts_differ"] = pass.difference;
  run["padding_clean"] = pass.padding_clean;
  run["workspace_bytes"] = pass.workspace_bytes;
  for (const DemoLayout layout : kDemoLayouts) {
    run["microseconds"][to_string(layout)] = 1e6 * pass.seconds[static_cast<size_t>(layout)];
  }
  run["tokens_per_second"] = static_cast<double>(fixture.total()) / pass.seconds[kPacked];
  run["gflops"] = layer_flops(fixture, products) / pass.seconds[kPacked] / 1e9;
}

nlohmann::json layer_json(const DemoFixture& fixture, const DemoLayer& layer) {
  nlohmann::json run = {{"layer", layer.layer}, {"dtype", to_string(layer.dtype)}};
  const DemoForward& forward = layer.forward;
  run["forward"] = {{"out_to_torch", error_json(forward.torch)},
                    {"out_to_float64", error_json(forward.exact)},
                    {"lse", error_json(forward.lse)}};
  add_common_json(run["forward"], fixture, forward, kForwardProducts);
  if (!layer.backward) {
    run["backward"] = nullptr;
    run["no_backward"] = layer.no_backward;
    return run;
  }
  run["backward"] = {{"dq", error_json(layer.backward->dq)},
                     {"dk", error_json(layer.backward->dk)},
                     {"dv", error_json(layer.backward->dv)}};
  add_common_json(run["backward"], fixture, *layer.backward, kBackwardProducts);
  return run;
}

nlohmann::json input_json(const DemoFixture& fixture) {
  nlohmann::json input = {{"model", fixture.model},        {"source", fixture.source},
                          {"layers", fixture.layers},      {"heads", fixture.heads},
                          {"head_dim", fixture.head_dim},  {"tokens", fixture.total()},
                          {"padded_to", fixture.longest()}};
  for (size_t i = 0; i < fixture.texts.size(); ++i) input["lengths"].push_back(fixture.length(i));
  return input;
}

}  // namespace

std::vector<std::string> demo_failures(const DemoResults& results) {
  std::vector<std::string> list;
  for (const DemoLayer& layer : results.layers) {
    const std::string where = fmt::format("{}, layer {}", to_string(layer.dtype), layer.layer);
    if (!(layer.worst_of_bound() <= 1)) {
      list.push_back(
          fmt::format("{}: an error is {:.2f} times its bound", where, layer.worst_of_bound()));
    }
    if (!layer.padding_clean()) list.push_back(fmt::format("{}: padding is not clean", where));
  }
  if (!(results.maps.row_sum_error <= kRowSumBound)) {
    list.push_back(fmt::format("attention probabilities sum to 1 only within {:.1e}",
                               results.maps.row_sum_error));
  }
  return list;
}

void print_demo_heading(const DemoResults& results) {
  const DemoFixture& fixture = *results.fixture;
  const int64_t rows = static_cast<int64_t>(fixture.texts.size()) * fixture.longest();
  fmt::print("{}\n", paint("Attention as a sentence encoder runs it", Style::kTitle));
  fmt::print("  model     {}: {} layers, {} heads, head dim {}\n", fixture.model, fixture.layers,
             fixture.heads, fixture.head_dim);
  fmt::print("  batch     {} texts of {} tokens: {} tokens, {} rows of padding\n",
             fixture.texts.size(), lengths_text(fixture), fixture.total(), rows - fixture.total());
  fmt::print("  device    {}\n", results.device);
  fmt::print(
      "  layouts   padded with lengths (padding holds NaN), packed, padded with a mask\n"
      "  bound     twice the error of a plain implementation in the same dtype, plus 1e-5 of\n"
      "            the largest value, for each text and head on its own\n\n");
  std::fflush(stdout);
}

void print_demo_tables(const DemoResults& results) {
  const DemoFixture& fixture = *results.fixture;
  print_forward(results);
  print_backward(results);
  fmt::print(
      "  plain     error to fp64 of a dense implementation that rounds to the dtype\n"
      "  of bound  the worst text, head and layout, lse included; right up to 100%\n"
      "  layouts   largest difference between the three layouts' results\n"
      "  tokens/s  packed; padding counts neither here nor in GFLOP/s\n\n");
  fmt::print(
      "Score matrices, were they written, would take {} a layer ({} x {} x {} x {} float32)\n"
      "and probabilities as much again; fa4's workspace is {} at most.\n\n",
      short_bytes(score_bytes(fixture)), fixture.texts.size(), fixture.heads, fixture.longest(),
      fixture.longest(), short_bytes(static_cast<double>(largest_workspace(results))));
}

bool print_demo_verdict(const DemoResults& results) {
  const std::vector<std::string> wrong = demo_failures(results);
  if (!wrong.empty()) {
    fmt::print("{}\n", paint("FAIL", Style::kBad));
    for (const std::string& sentence : wrong) fmt::print("  {}\n", sentence);
    return false;
  }
  double worst = 0;
  bool backward = true;
  for (const DemoLayer& layer : results.layers) {
    worst = std::max(worst, layer.worst_of_bound());
    backward = backward && layer.backward.has_value();
  }
  fmt::print(
      "{}  {}, {} layers in {} dtypes and {} layouts: the largest error is {:.0f}% of what\n"
      "      it may be, padding changes nothing.\n",
      paint("PASS", Style::kGood), backward ? "Forward and backward" : "Forward only",
      results.fixture->layers,
      static_cast<int64_t>(results.layers.size()) / results.fixture->layers, kDemoLayouts.size(),
      100 * worst);
  return true;
}

std::string demo_json(const DemoResults& results) {
  const DemoFixture& fixture = *results.fixture;
  nlohmann::json demo = {{"fa4", version()}, {"seed", results.seed}, {"threads", results.threads}};
  demo["cpu"] = cpu_info().model;
  demo["device"] = results.device;
  demo["input"] = input_json(fixture);
  demo["rule"] =
      "right if of_bound <= 1: the largest over (text, head) of error / what docs/numerics.md "
      "allows";
  for (const DemoLayer& layer : results.layers) demo["runs"].push_back(layer_json(fixture, layer));
  demo["score_matrix_bytes"] = score_bytes(fixture);
  demo["attention"] = {{"file", "demo_attention.npy"},
                       {"dims", "[layer, head, query, key]"},
                       {"text", fixture.texts[results.maps.text].text},
                       {"tokens", results.maps.tokens},
                       {"drawn_layer", results.drawn_layer},
                       {"drawn_head", results.drawn_head},
                       {"row_sum_error", results.maps.row_sum_error}};
  demo["failures"] = demo_failures(results);
  demo["pass"] = demo_failures(results).empty();
  return demo.dump(1);
}

}  // namespace fa4::cli
