// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attend_request.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "cli/command.h"
#include "cli/npy.h"

namespace fa4::cli {
namespace {

/// The tensor as one of `device`.
Tensor on(Tensor tensor, Device device) {
  tensor.device = device;
  return tensor;
}

Array poisoned(DType dtype, std::vector<int64_t> dims) {
  Array array(dtype, std::move(dims));
  std::memset(array.data(), 0xFF, array.bytes());
  return array;
}

void add_option_flags(CLI::App& app, AttentionOptions& o, std::string& causal) {
  const char* group = "Options of the attention";
  app.add_option("--scale", o.scale, "Factor of the scores (default: 1/sqrt(d))")->group(group);
  app.add_option("--causal", causal,
                 "none, top-left or bottom-right (the last query sees\nthe last key), which "
                 "--causal alone means")
      ->expected(0, 1)
      ->default_str("bottom-right")
      ->check(CLI::IsMember({"none", "bottom-right", "top-left"}).description(""))
      ->type_name("ALIGNMENT")
      ->group(group);
  app.add_option("--window-left", o.window.left, "Keys before the diagonal that a query sees")
      ->group(group);
  app.add_option("--window-right", o.window.right, "Keys after the diagonal that a query sees")
      ->group(group);
  app.add_option("--softcap", o.softcap, "c: scores become c * tanh(score / c); 0 is off")
      ->group(group);
  app.add_option("--dropout", o.dropout_p, "Probability of dropping, in [0, 1)")->group(group);
  app.add_option("--seed", o.dropout_seed, "Seed of dropout")->group(group);
  app.add_flag("--deterministic", o.deterministic, "Backward bitwise repeatable")->group(group);
  app.add_flag("--batch-invariant", o.batch_invariant, "A row's bits depend on its own data alone")
      ->group(group);
  app.add_option("--threads", o.threads, "CPU threads; 0 is every core")->group(group);
  app.add_option("--max-seqlen-q", o.max_seqlen_q, "Bound of a packed sequence's queries")
      ->group(group);
  app.add_option("--max-seqlen-k", o.max_seqlen_k, "Bound of a packed sequence's keys")
      ->group(group);
}

void add_run_flags(CLI::App& app, AttendRequest& r) {
  const char* group = "Running";
  const auto dtype = [](const std::string& name) {
    return parse_float_dtype(name) ? std::string()
                                   : fmt::format("{} is unknown; known: fp32 fp64 bf16 fp16", name);
  };
  app.add_option("--dtype", r.dtype, "Convert q, k, v and dout to fp32, fp64, bf16 or fp16 first")
      ->check(CLI::Validator(dtype, ""))
      ->type_name("DTYPE")
      ->group(group);
  app.add_flag("--bf16", r.bfloat16, "Two-byte files (<u2, V2) hold bfloat16")->group(group);
  app.add_flag("--widen", r.widen, "Write 16-bit results as float32")->group(group);
  app.add_option("--device", r.device,
                 "cpu, the only one so far: attend keeps its arrays in host memory")
      ->group(group);
  app.add_option("--repeat", r.repeat, "Runs to time; the best is shown (default: 1)")
      ->check(CLI::Range(1, 1000000).description(""))
      ->group(group);
  app.add_flag("--check", r.check,
               "Compare with dense float64 attention; exit code 1 if a result is wrong")
      ->group(group);
  app.add_flag("--describe", r.describe, "Print what runs and why")->group(group);
  app.add_flag("--json", r.json, "Print JSON")->group(group);
}

}  // namespace

Device device_of(const AttendRequest& request) {
  const std::string& name = request.device;
  if (name == "cpu") return Device::cpu();
  int index = 0;
  char rest = 0;
  const bool is_gpu = std::sscanf(name.c_str(), "cuda:%d%c", &index, &rest) == 1 && index >= 0;
  if (is_gpu || name == "cuda") {
    throw std::runtime_error(fmt::format(
        "device: is {}; supported: cpu (attend keeps its arrays in host memory)", name));
  }
  throw UsageError(fmt::format("--device: is '{}'; allowed: cpu, cuda or cuda:N", name));
}

AttendRequest::AttendRequest()
    : inputs{
          {"q", "q", "Queries: [b, s_q, h_q, d] or packed [total, h_q, d]"},
          {"k", "k", "Keys: [b, s_k, h_k, d] or [total, h_k, d]"},
          {"v", "v", "Values: [b, s_k, h_k, d_v] or [total, h_k, d_v]"},
          {"bias", "--bias", "Added to scores; dims of [b, h_q, s_q, s_k] or 1"},
          {"mask", "--mask", "bool, true = may see; dims of [b, h_q, s_q, s_k] or 1"},
          {"alibi_slopes", "--alibi-slopes", "float32 [h_q] or [b, h_q]"},
          {"sink", "--sink", "One more logit per head: [h_q]"},
          {"cu_seqlens_q", "--cu-seqlens-q", "Ends of packed sequences: int [b + 1], first 0"},
          {"cu_seqlens_k", "--cu-seqlens-k", "The same for k and v"},
          {"seqused_q", "--seqused-q", "Rows that count of each sequence: int [b]"},
          {"seqused_k", "--seqused-k", "The same for k and v"},
          {"start_q", "--start-q", "First row that counts of each sequence: int [b]"},
          {"start_k", "--start-k", "The same for k and v"},
          {"dout", "--dout", "Gradient of out: asks for the backward"},
          {"dlse", "--dlse", "Gradient of lse"},
      },
      outputs{
          {"out", "-o,--out", "Result, dtype of q"},
          {"lse", "--lse", "Log-sum-exp of each row, float32"},
          {"dq", "--dq", "Gradient of q (needs --dout)"},
          {"dk", "--dk", "Gradient of k"},
          {"dv", "--dv", "Gradient of v"},
          {"dbias", "--dbias", "Gradient of bias"},
          {"dsink", "--dsink", "Gradient of sink"},
      } {}

const std::string& AttendRequest::path_of(const std::string& name) const {
  for (const std::vector<NamedFile>* files : {&inputs, &outputs}) {
    for (const NamedFile& file : *files) {
      if (name == file.name) return file.path;
    }
  }
  throw std::logic_error("no tensor is called " + name);
}

bool AttendRequest::wants_backward() const { return !path_of("dout").empty(); }

void add_attend_flags(CLI::App& app, AttendRequest& request) {
  for (NamedFile& file : request.inputs) {
    CLI::Option* option = app.add_option(file.flag, file.path, file.help)->type_name("NPY");
    if (option->get_positional()) {
      option->required();
    } else {
      option->group("More inputs");
    }
  }
  for (NamedFile& file : request.outputs) {
    app.add_option(file.flag, file.path, file.help)->type_name("NPY")->group("Files to write");
  }
  add_option_flags(app, request.options, request.causal);
  add_run_flags(app, request);
}

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
}

Array& AttendArrays::at(const std::string& name) {
  const std::pair<const char*, Array*> all[] = {
      {"q", &q},
      {"k", &k},
      {"v", &v},
      {"out", &out},
      {"lse", &lse},
      {"bias", &bias},
      {"mask", &mask},
      {"alibi_slopes", &alibi_slopes},
      {"sink", &sink},
      {"cu_seqlens_q", &cu_seqlens_q},
      {"cu_seqlens_k", &cu_seqlens_k},
      {"seqused_q", &seqused_q},
      {"seqused_k", &seqused_k},
      {"start_q", &start_q},
      {"start_k", &start_k},
      {"dout", &dout},
      {"dlse", &dlse},
      {"dq", &dq},
      {"dk", &dk},
      {"dv", &dv},
      {"dbias", &dbias},
      {"dsink", &dsink},
  };
  for (const auto& [key, array] : all) {
    if (name == key) return *array;
  }
  throw std::logic_error("no tensor is called " + name);
}

AttentionTensors AttendArrays::tensors(Device device) const {
  AttentionTensors t;
  t.q = on(q.view(), device);
  t.k = on(k.view(), device);
  t.v = on(v.view(), device);
  t.out = on(out.view(), device);
  t.lse = on(lse.view(), device);
  t.bias = on(bias.view(), device);
  t.mask = on(mask.view(), device);
  t.alibi_slopes = on(alibi_slopes.view(), device);
  t.sink = on(sink.view(), device);
  t.cu_seqlens_q = on(cu_seqlens_q.view(), device);
  t.cu_seqlens_k = on(cu_seqlens_k.view(), device);
  t.seqused_q = on(seqused_q.view(), device);
  t.seqused_k = on(seqused_k.view(), device);
  t.start_q = on(start_q.view(), device);
  t.start_k = on(start_k.view(), device);
  return t;
}

AttentionGradients AttendArrays::gradients(Device device) const {
  AttentionGradients g;
  g.dout = on(dout.view(), device);
  g.dlse = on(dlse.view(), device);
  g.dq = on(dq.view(), device);
  g.dk = on(dk.view(), device);
  g.dv = on(dv.view(), device);
  g.dbias = on(dbias.view(), device);
  g.dsink = on(dsink.view(), device);
  return g;
}

AttendArrays read_inputs(const AttendRequest& request) {
  AttendArrays arrays;
  for (const NamedFile& file : request.inputs) {
    if (file.path.empty()) continue;
    arrays.at(file.name) = read_npy_file(file.path, request.bfloat16).value();
  }
  if (request.dtype.empty()) return arrays;
  const DType dtype = *parse_float_dtype(request.dtype);
  for (const char* name : {"q", "k", "v", "dout"}) {
    Array& array = arrays.at(name);
    if (array.present() && array.dtype() != dtype) array = convert(array, dtype);
  }
  return arrays;
}

void make_forward_outputs(AttendArrays& a) {
  std::vector<int64_t> out = a.q.dims();
  out.back() = a.v.dims().back();
  a.out = poisoned(a.q.dtype(), out);
  const std::vector<int64_t>& q = a.q.dims();
  const DType lse = a.q.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  a.lse = q.size() == 3 ? poisoned(lse, {q[1], q[0]}) : poisoned(lse, {q[0], q[2], q[1]});
}

void make_backward_outputs(AttendArrays& a, const AttendRequest& request) {
  a.dq = poisoned(a.q.dtype(), a.q.dims());
  a.dk = poisoned(a.k.dtype(), a.k.dims());
  a.dv = poisoned(a.v.dtype(), a.v.dims());
  if (!request.path_of("dbias").empty()) a.dbias = poisoned(a.bias.dtype(), a.bias.dims());
  if (!request.path_of("dsink").empty()) a.dsink = poisoned(a.sink.dtype(), a.sink.dims());
}

}  // namespace fa4::cli
