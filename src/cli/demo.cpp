// SPDX-License-Identifier: BSD-3-Clause
// fa4 demo: attention as a sentence encoder runs it, on real activations.
#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>

#include "cli/command_line.h"
#include "cli/demo_fixture.h"
#include "cli/demo_layer.h"
#include "cli/demo_picture.h"
#include "cli/demo_reference.h"
#include "cli/demo_report.h"
#include "cli/npy.h"
#include "cli/terminal.h"

namespace fa4::cli {
namespace {

// The head that is drawn: it links pronouns with what they stand for.
constexpr int64_t kPictureLayer = 3;
constexpr int64_t kPictureHead = 1;
constexpr size_t kPictureText = 2;  // 37 tokens, which fit a terminal.

struct Arguments {
  std::optional<std::filesystem::path> data;
  std::filesystem::path out = "out";
  uint64_t seed = 1;
  int threads = 0;
  std::vector<std::string> dtypes = {"fp32", "bf16"};
  int64_t layer = kPictureLayer;
  int64_t head = kPictureHead;
};

std::vector<DType> parse_dtypes(const std::vector<std::string>& names) {
  std::vector<DType> dtypes;
  for (const std::string& name : names) {
    const std::optional<DType> dtype = parse_float_dtype(name);
    if (!dtype || *dtype == DType::kFloat64) {
      throw UsageError(fmt::format("--dtypes names '{}', must be of fp32, bf16, fp16", name));
    }
    dtypes.push_back(*dtype);
  }
  return dtypes;
}

/// References of all layers, made side by side: they are slow, and nothing is timed meanwhile.
std::vector<std::vector<DemoReferences>> make_references(const DemoFixture& fixture,
                                                         const std::vector<DType>& dtypes,
                                                         const std::vector<float>& dout) {
  std::vector<std::future<std::vector<DemoReferences>>> jobs;
  for (int64_t layer = 0; layer < fixture.layers; ++layer) {
    jobs.push_back(std::async(std::launch::async, make_demo_references, std::cref(fixture), layer,
                              std::cref(dtypes), std::cref(dout)));
  }
  ProgressBar progress(fixture.layers);
  std::vector<std::vector<DemoReferences>> references;
  for (auto& job : jobs) {
    progress.show("references in float64");
    references.push_back(job.get());
    progress.advance();
  }
  return references;
}

void run_layers(const DemoFixture& fixture, const Arguments& arguments,
                const std::vector<DType>& dtypes, DemoResults& results) {
  const std::vector<float> dout = make_demo_dout(fixture, arguments.seed);
  const auto references = make_references(fixture, dtypes, dout);
  for (size_t i = 0; i < dtypes.size(); ++i) {
    for (int64_t layer = 0; layer < fixture.layers; ++layer) {
      results.layers.push_back(
          run_demo_layer(fixture, layer, dtypes[i], dout, references[layer][i], arguments.threads));
    }
  }
}

void write_files(const DemoResults& results, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  write_npy_file((folder / "demo_attention.npy").string(), results.maps.probabilities).check();
  std::ofstream file(folder / "demo.json");
  file << demo_json(results) << "\n";
  file.close();
  if (!file) {
    throw std::runtime_error(fmt::format("can't write {}", (folder / "demo.json").string()));
  }
}

void check_picture(const DemoFixture& fixture, const Arguments& arguments) {
  if (arguments.layer < 0 || arguments.layer >= fixture.layers) {
    throw UsageError(
        fmt::format("--layer is {}, must be 0 to {}", arguments.layer, fixture.layers - 1));
  }
  if (arguments.head < 0 || arguments.head >= fixture.heads) {
    throw UsageError(
        fmt::format("--head is {}, must be 0 to {}", arguments.head, fixture.heads - 1));
  }
}

}  // namespace

int demo_command(int argc, char** argv) {
  CommandLine line("fa4 demo",
                   "Runs attention on what a real sentence encoder feeds it: six layers of "
                   "all-MiniLM-L6-v2,\nfour texts, forward and backward, compared with torch's "
                   "results and with float64.");
  Arguments arguments;
  line.add("--data", arguments.data, "Folder of the input (default: data/minilm)").type("FOLDER");
  line.add("--out", arguments.out, "Folder for demo.json and demo_attention.npy (default: out)")
      .type("FOLDER");
  line.add("--seed", arguments.seed, "Seed of dout (default: 1)");
  line.add("--threads", arguments.threads, "CPU threads (default: 0, which is every core)");
  line.add("--dtypes", arguments.dtypes, "Of fp32, bf16, fp16 (default: fp32,bf16)")
      .commas()
      .type("DTYPE");
  line.add("--layer", arguments.layer, "Layer to draw (default: 3)");
  line.add("--head", arguments.head, "Head to draw (default: 1)");
  line.examples({"demo", "demo --dtypes fp32,bf16,fp16", "demo --layer 2 --head 11 --seed 2"});
  if (const auto code = line.parse(argc, argv)) return *code;

  const std::vector<DType> dtypes = parse_dtypes(arguments.dtypes);
  const DemoFixture fixture = load_demo_fixture(find_demo_fixture(arguments.data));
  check_picture(fixture, arguments);
  DemoResults results;
  results.fixture = &fixture;
  results.seed = arguments.seed;
  results.threads = arguments.threads;
  results.device = demo_device(fixture, arguments.threads);
  results.drawn_layer = arguments.layer;
  results.drawn_head = arguments.head;
  print_demo_heading(results);
  run_layers(fixture, arguments, dtypes, results);
  results.maps = make_demo_maps(fixture, kPictureText, arguments.threads);
  print_demo_tables(results);
  print_demo_head(results.maps, arguments.layer, arguments.head);
  write_files(results, arguments.out);
  fmt::print("Wrote {}: tools/plot_demo.py draws all heads from it.\n\n",
             (arguments.out / "demo.json").string());
  return print_demo_verdict(results) ? kExitOk : kExitFailure;
}

}  // namespace fa4::cli
