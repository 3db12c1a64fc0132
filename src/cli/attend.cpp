// SPDX-License-Identifier: BSD-3-Clause
// fa4 attend: attention of tensors in .npy files.
#include <fa4/plan.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/attend_request.h"
#include "cli/check.h"
#include "cli/commands.h"
#include "cli/device_call.h"
#include "cli/npy.h"
#include "cli/stopwatch.h"
#include "cli/terminal.h"

namespace fa4::cli {
namespace {

/// A file that was written.
struct Written {
  std::string name;     ///< The tensor's.
  std::string content;  ///< "float32 [1, 128, 8, 64]", as it is in the file.
  std::string path;
};

/// What happened, for the table and the JSON.
struct Outcome {
  double forward_seconds = 0;
  double backward_seconds = 0;
  std::string forward_plan, backward_plan;
  std::vector<Check> checks;
  std::vector<Written> written;
};

/// The best of `repeats` runs, each to its end. Throws Error.
template <class Run>
double best_seconds(int repeats, const PlanWorkspace& workspace, const Run& run) {
  double best = 0;
  for (int i = 0; i < repeats; ++i) {
    const Stopwatch watch;
    run().check();
    workspace.wait().check();
    const double seconds = watch.seconds();
    best = i == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

void run_forward(const AttendRequest& request, AttendArrays& arrays, Outcome& outcome) {
  const Device device = device_of(request);
  const Plan plan =
      Plan::make(AttentionProblem::forward(arrays.tensors(device), request.options), device)
          .value();
  make_forward_outputs(arrays);
  const PlanWorkspace workspace(plan, device);
  outcome.forward_plan = plan.describe();
  const auto call = [&](const AttentionTensors& tensors, const AttentionGradients&) {
    outcome.forward_seconds =
        best_seconds(request.repeat, workspace, [&] { return plan.run(tensors, workspace.get()); });
    return Status();
  };
  call_on(device, arrays, call).check();
  if (request.check) {
    outcome.checks = check_forward(arrays.tensors(Device::cpu()), request.options);
  }
}

void run_backward(const AttendRequest& request, AttendArrays& arrays, Outcome& outcome) {
  const Device device = device_of(request);
  make_backward_outputs(arrays, !request.path_of("dbias").empty(),
                        !request.path_of("dsink").empty());
  const Plan plan =
      Plan::make(AttentionProblem::backward(arrays.tensors(device), arrays.gradients(device),
                                            request.options),
                 device)
          .value();
  const PlanWorkspace workspace(plan, device);
  outcome.backward_plan = plan.describe();
  const auto call = [&](const AttentionTensors& tensors, const AttentionGradients& gradients) {
    outcome.backward_seconds = best_seconds(
        request.repeat, workspace, [&] { return plan.run(tensors, gradients, workspace.get()); });
    return Status();
  };
  call_on(device, arrays, call).check();
  if (!request.check) return;
  const std::vector<Check> checks = check_backward(
      arrays.tensors(Device::cpu()), arrays.gradients(Device::cpu()), request.options);
  outcome.checks.insert(outcome.checks.end(), checks.begin(), checks.end());
}

void write_outputs(const AttendRequest& request, AttendArrays& arrays, Outcome& outcome) {
  for (const TensorFile& file : request.files) {
    if (file.path.empty() || !file.tensor->written) continue;
    const Array& array = arrays.*file.tensor->array;
    const bool narrow = array.dtype() == DType::kBFloat16 || array.dtype() == DType::kFloat16;
    Array wide;
    if (request.widen && narrow) wide = convert(array, DType::kFloat32);
    const Array& content = wide.present() ? wide : array;
    write_npy_file(file.path, content).check();
    outcome.written.push_back({file.tensor->name, describe(content), file.path});
  }
}

/// What the result's numbers are like, so that a run that writes nothing shows something too.
struct Numbers {
  double mean_square = 0;
  double largest = 0;     ///< Of the absolute values.
  int64_t nonfinite = 0;  ///< Of which the others know nothing.
};

Numbers numbers_of(const Array& array) {
  Numbers n;
  int64_t finite = 0;
  for (int64_t i = 0; i < array.elements(); ++i) {
    const double x = get(array, i);
    if (!std::isfinite(x)) {
      ++n.nonfinite;
      continue;
    }
    n.mean_square += (x * x - n.mean_square) / static_cast<double>(++finite);
    n.largest = std::max(n.largest, std::abs(x));
  }
  return n;
}

void print_result(const AttendArrays& arrays, const Outcome& outcome) {
  const Numbers n = numbers_of(arrays.out);
  fmt::print("  out       {}: root mean square {:.4g}, largest {:.4g}", describe(arrays.out),
             std::sqrt(n.mean_square), n.largest);
  if (n.nonfinite > 0) fmt::print(", {} not finite", n.nonfinite);
  fmt::print("\n");
  if (outcome.written.empty()) fmt::print("  nothing was written: --out FILE keeps the result\n");
}

void print_inputs(const AttendRequest& request, AttendArrays& arrays) {
  Table table({{"tensor", Align::kLeft}, {"dtype and dims", Align::kLeft}, {"file", Align::kLeft}});
  for (const TensorFile& file : request.files) {
    if (file.path.empty() || file.tensor->written) continue;
    table.add_row({file.tensor->name, describe(arrays.*file.tensor->array), file.path});
  }
  table.print();
}

void print_checks(const std::vector<Check>& checks) {
  fmt::print("\n{}\n\n", paint("Errors against dense float64 attention", Style::kBold));
  Table table({{"tensor", Align::kLeft},
               {"error"},
               {"plain same-dtype error"},
               {"allowed"},
               {"", Align::kLeft}});
  for (const Check& c : checks) {
    table.add_row({c.name, fmt::format("{:.2e}", c.error), fmt::format("{:.2e}", c.plain_error),
                   fmt::format("{:.2e}", c.allowed),
                   c.passed ? paint("pass", Style::kGood) : paint("FAIL", Style::kBad)});
  }
  table.print();
  for (const Check& c : checks) {
    if (!c.passed) fmt::print("  {}\n", c.fault);
  }
}

void print_outcome(const AttendRequest& request, AttendArrays& arrays, const Outcome& outcome) {
  print_inputs(request, arrays);
  fmt::print("\n  forward   {:.3f} ms\n", outcome.forward_seconds * 1e3);
  if (request.wants_backward()) {
    fmt::print("  backward  {:.3f} ms\n", outcome.backward_seconds * 1e3);
  }
  print_result(arrays, outcome);
  if (request.describe) {
    fmt::print("\n{}\n{}\n", outcome.forward_plan, outcome.backward_plan);
  }
  if (!outcome.checks.empty()) print_checks(outcome.checks);
  if (!outcome.written.empty()) fmt::print("\n");
  for (const Written& w : outcome.written) {
    fmt::print("  wrote {}, {}, to {}\n", w.name, w.content, w.path);
  }
}

nlohmann::json to_json(const AttendRequest& request, AttendArrays& arrays, const Outcome& outcome) {
  nlohmann::json json = {{"forward_seconds", outcome.forward_seconds},
                         {"forward_plan", outcome.forward_plan}};
  if (request.wants_backward()) {
    json["backward_seconds"] = outcome.backward_seconds;
    json["backward_plan"] = outcome.backward_plan;
  }
  for (const TensorFile& file : request.files) {
    if (file.path.empty() || file.tensor->written) continue;
    const Array& array = arrays.*file.tensor->array;
    json["inputs"][file.tensor->name] = {
        {"file", file.path}, {"dtype", to_string(array.dtype())}, {"dims", array.dims()}};
  }
  const Numbers n = numbers_of(arrays.out);
  json["out"] = {{"dtype", to_string(arrays.out.dtype())},
                 {"dims", arrays.out.dims()},
                 {"root_mean_square", std::sqrt(n.mean_square)},
                 {"largest", n.largest},
                 {"not_finite", n.nonfinite}};
  for (const Written& w : outcome.written) json["written"][w.name] = w.path;
  if (!request.check) return json;
  json["passed"] = all_passed(outcome.checks);
  for (const Check& c : outcome.checks) {
    json["checks"].push_back({{"tensor", c.name},
                              {"error", c.error},
                              {"plain_error", c.plain_error},
                              {"allowed", c.allowed},
                              {"passed", c.passed},
                              {"fault", c.fault}});
  }
  return json;
}

}  // namespace

int attend_command(int argc, char** argv) {
  AttendRequest request;
  if (const auto code = parse_attend(argc, argv, request)) return *code;

  AttendArrays arrays = read_inputs(request);
  Outcome outcome;
  run_forward(request, arrays, outcome);
  if (request.wants_backward()) run_backward(request, arrays, outcome);
  write_outputs(request, arrays, outcome);
  if (request.json) {
    fmt::print("{}\n", to_json(request, arrays, outcome).dump(2));
  } else {
    print_outcome(request, arrays, outcome);
  }
  return all_passed(outcome.checks) ? kExitOk : kExitFailure;
}

}  // namespace fa4::cli
