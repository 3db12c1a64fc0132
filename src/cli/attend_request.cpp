// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attend_request.h"

#include <fmt/core.h>

#include <charconv>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "cli/command_line.h"
#include "cli/npy.h"

namespace fa4::cli {
namespace {

void add_files(CommandLine& line, AttendRequest& request) {
  for (const NamedTensor& tensor : named_tensors()) request.files.push_back({&tensor, ""});
  for (TensorFile& file : request.files) {
    const NamedTensor& tensor = *file.tensor;
    const Flag flag = line.add(tensor.flag, file.path, tensor.help);
    flag.type("NPY");
    if (tensor.flag[0] != '-') {
      flag.required();
    } else {
      flag.group(tensor.written ? "Files to write" : "More inputs");
    }
  }
}

void add_option_flags(CommandLine& line, AttentionOptions& o, std::string& causal) {
  const char* group = "Options of the attention";
  line.add("--scale", o.scale, "Factor of the scores (default: 1/sqrt(d))").group(group);
  line.add("--causal", causal,
           "none, top-left or bottom-right (the last query sees\nthe last key), which "
           "--causal alone means")
      .value_if_alone("bottom-right")
      .one_of({"none", "bottom-right", "top-left"})
      .type("[ALIGNMENT]")
      .group(group);
  line.add("--window-left", o.window.left, "Keys before the diagonal that a query sees")
      .group(group);
  line.add("--window-right", o.window.right, "Keys after the diagonal that a query sees")
      .group(group);
  line.add("--softcap", o.softcap, "c: scores become c * tanh(score / c); 0 is off").group(group);
  line.add("--dropout", o.dropout_p, "Probability of dropping, in [0, 1)").group(group);
  line.add("--seed", o.dropout_seed, "Seed of dropout").group(group);
  line.add("--deterministic", o.deterministic, "Backward bitwise repeatable").group(group);
  line.add("--batch-invariant", o.batch_invariant, "A row's bits depend on its own data alone")
      .group(group);
  line.add("--threads", o.threads, "CPU threads; 0 is every core").group(group);
  line.add("--max-seqlen-q", o.max_seqlen_q, "Bound of a packed sequence's queries").group(group);
  line.add("--max-seqlen-k", o.max_seqlen_k, "Bound of a packed sequence's keys").group(group);
}

void add_run_flags(CommandLine& line, AttendRequest& r) {
  const char* group = "Running";
  const auto dtype = [](const std::string& name) {
    return parse_float_dtype(name) ? std::string()
                                   : fmt::format("{} is unknown; known: fp32 fp64 bf16 fp16", name);
  };
  line.add("--dtype", r.dtype, "Convert q, k, v and dout to fp32, fp64, bf16 or fp16 first")
      .check(dtype)
      .type("DTYPE")
      .group(group);
  line.add("--bf16", r.bfloat16, "Two-byte files (<u2, V2) hold bfloat16").group(group);
  line.add("--widen", r.widen, "Write 16-bit results as float32").group(group);
  line.add("--device", r.device,
           "cpu, cuda:N (the arrays are copied there and back), or\nemulator:sm_90a: GPU kernels "
           "run on the CPU, slowly (default: cpu)")
      .group(group);
  line.add("--repeat", r.repeat, "Runs to time; the best is shown (default: 1)")
      .range(1, 1000000)
      .group(group);
  line.add("--check", r.check,
           "Compare with dense float64 attention; exit code 1 if a result is wrong")
      .group(group);
  line.add("--describe", r.describe, "Print what runs and why").group(group);
  line.add("--json", r.json, "Print JSON").group(group);
}

}  // namespace

Device device_of(const AttendRequest& request) {
  const std::string& name = request.device;
  if (name == "cpu") return Device::cpu();
  constexpr const char* kEmulator = "emulator:";
  if (name.starts_with(kEmulator)) {
    const Device device = Device::emulator(name.substr(std::strlen(kEmulator)));
    if (device.index >= 0) return device;
  }
  if (name == "cuda") return Device::cuda(0);
  constexpr std::string_view kCuda = "cuda:";
  if (name.starts_with(kCuda)) {
    int index = -1;
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data() + kCuda.size(), end, index);
    if (error == std::errc() && at == end && index >= 0) return Device::cuda(index);
  }
  throw UsageError(
      fmt::format("--device: is '{}'; allowed: cpu, emulator:sm_90a, cuda or cuda:N", name));
}

const std::string& AttendRequest::path_of(const std::string& name) const {
  for (const TensorFile& file : files) {
    if (name == file.tensor->name) return file.path;
  }
  throw std::logic_error("no tensor is called " + name);
}

namespace {

/// Turns text into options once parsing is done. Throws UsageError.
void resolve(AttendRequest& r) {
  r.options.causal = r.causal == "none"       ? Causal::kNone
                     : r.causal == "top-left" ? Causal::kTopLeft
                                              : Causal::kBottomRight;
  device_of(r);
  for (const char* name : {"dlse", "dq", "dk", "dv", "dbias", "dsink"}) {
    if (!r.path_of(name).empty() && !r.wants_backward()) {
      throw UsageError(fmt::format("--{} needs --dout", name));
    }
  }
  if (!r.path_of("dbias").empty() && r.path_of("bias").empty()) {
    throw UsageError("--dbias needs --bias");
  }
  if (!r.path_of("dsink").empty() && r.path_of("sink").empty()) {
    throw UsageError("--dsink needs --sink");
  }
  for (const TensorFile& file : r.files) {
    for (const TensorFile* other = r.files.data(); other != &file; ++other) {
      if (!file.tensor->written || !other->tensor->written || file.path.empty()) continue;
      if (file.path != other->path) continue;
      throw UsageError(fmt::format("--{} is {}, which --{} is too; allowed: a file of its own",
                                   file.tensor->name, file.path, other->tensor->name));
    }
  }
}

}  // namespace

AttendArrays read_inputs(const AttendRequest& request) {
  AttendArrays arrays;
  for (const TensorFile& file : request.files) {
    if (file.path.empty() || file.tensor->written) continue;
    arrays.*file.tensor->array = read_npy_file(file.path, request.bfloat16).value();
  }
  if (request.dtype.empty()) return arrays;
  const DType dtype = *parse_float_dtype(request.dtype);
  for (const char* name : {"q", "k", "v", "dout"}) {
    Array& array = arrays.at(name);
    if (array.present() && array.dtype() != dtype) array = convert(array, dtype);
  }
  return arrays;
}

std::optional<int> parse_attend(int argc, char** argv, AttendRequest& request) {
  CommandLine line(
      "fa4 attend",
      "Computes attention of tensors in .npy files, forward and (with --dout) backward.\n"
      "Files may hold <f4, <f8, <f2, |b1, <i4 or <i8; with --bf16, <u2 is bfloat16.");
  add_files(line, request);
  add_option_flags(line, request.options, request.causal);
  add_run_flags(line, request);
  line.examples({"attend q.npy k.npy v.npy --causal --out out.npy --lse lse.npy",
                 "attend q.npy k.npy v.npy --dtype bf16 --window-left 255 --check",
                 "attend q.npy k.npy v.npy --dtype bf16 --device emulator:sm_90a --check",
                 "attend q.npy k.npy v.npy --dout dout.npy --dq dq.npy --dk dk.npy --dv dv.npy",
                 "attend q.npy k.npy v.npy --cu-seqlens-q cu.npy --cu-seqlens-k cu.npy --json"});
  if (const auto code = line.parse(argc, argv)) return code;
  resolve(request);
  return std::nullopt;
}

}  // namespace fa4::cli
