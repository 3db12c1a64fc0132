// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/sm90_forward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/sequence.h"
#include "gpu/jit/kernels.h"

namespace fa4::gpu::sm90 {
namespace {

constexpr int kRowsPerWarpgroup = 64;
constexpr int kWarpgroupThreads = 128;
constexpr int kPanelCols = 64;
constexpr int64_t kMaxRows = int64_t{1} << 29;  ///< Sums of lengths stay far from 32 bits.

/// Measured on an H200: docs/notes/sm90_forward.md.
constexpr ForwardTile kTiles[] = {
    // d_qk, d_v, keys of bands, tile of keys, warpgroups, stages, own output, order
    {64, 64, 768, 64, 3, 5, true, Order::kNone},
    {64, 64, 0, 128, 3, 3, true, Order::kNone},
    {96, 96, 0, 112, 3, 2, false, Order::kProducts},
    {128, 128, 2048, 64, 3, 3, true, Order::kProducts},
    {128, 128, 0, 80, 3, 3, true, Order::kProducts},
    {192, 128, 0, 128, 2, 2, false, Order::kProducts},
    {192, 192, 0, 96, 2, 2, false, Order::kProducts},
    {256, 256, 0, 80, 2, 2, false, Order::kProducts},
};

/// The kernel's ScheduleParams and ForwardParams, field by field.
struct ScheduleParams {
  int32_t tiles, positions, heads, heads_total, section, section_tiles;
};
struct ForwardParams {
  TensorMap q, k, v, o;
  void* lse;
  int64_t lse_batch, lse_head, lse_row;
  int32_t rows_q, rows_k, group, diagonal, left, right;
  float scale, hidden;
  void* counter;
  ScheduleParams schedule;
};
static_assert(sizeof(ForwardParams) == 640);  // as the kernel's

int round_up(int64_t x, int to) { return static_cast<int>((x + to - 1) / to * to); }
int ceil_div(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

ForwardConfig make_config(const ForwardTile& tile, DType dtype, int dim_qk, int dim_v, bool left,
                          bool right) {
  ForwardConfig c;
  c.dtype = dtype;
  c.dim_qk = round_up(dim_qk, 16);
  c.dim_v = round_up(dim_v, 16);
  c.tile_keys = tile.tile_keys;
  c.warpgroups = tile.warpgroups;
  c.stages = tile.stages;
  // 65536 registers: 512 threads get 128 each at launch, 384 get 168. See Shapes in the kernel.
  c.consumer_registers = tile.warpgroups == 3 ? 160 : 232;
  c.producer_registers = tile.warpgroups == 3 ? 32 : 40;
  c.left = left;
  c.right = right;
  c.own_output = tile.own_output;
  c.order = tile.order;
  c.dynamic = left || right;  // tiles of queries then differ in length
  return c;
}

const ForwardTile& tile_for(int64_t dim_qk, int64_t dim_v, bool band, int64_t keys) {
  return *std::find_if(std::begin(kTiles), std::end(kTiles), [&](const ForwardTile& tile) {
    return dim_qk <= tile.max_dim_qk && dim_v <= tile.max_dim_v &&
           (tile.max_band_keys == 0 || (band && keys <= tile.max_band_keys));
  });
}

/// The rows and keys of the problem's one sequence shape, and how they see each other.
core::Sequence geometry(const core::Problem& problem) {
  return core::sequence_of(problem, AttentionTensors{}, 0);
}

/// Keys that some row sees. Only they are given to the kernel: what lies beyond may hold NaN.
core::Range visible_keys(const core::Problem& problem) {
  const core::Range keys = geometry(problem).keys_of_rows({0, problem.rows_q});
  return keys.empty() ? core::Range{0, 0} : keys;
}

int panel_bytes(int rows, int cols) { return round_up(cols, kPanelCols) * rows * 2; }

const char* text_of(bool x) { return x ? "true" : "false"; }

/// What the copy engine wants of a tensor, or an error that names it.
Status check_tensor(const char* name, const Tensor& t) {
  const int64_t step = 16 / size_of(t.dtype);
  if (reinterpret_cast<uintptr_t>(t.data) % 16 != 0) {
    return invalid_argument(std::string(name) +
                            ": data is not aligned; allowed on a GPU: a multiple of 16 bytes");
  }
  if (t.strides[3] != 1 && t.dims[3] > 1) {
    return invalid_argument(std::string(name) + ": stride 3 is " + std::to_string(t.strides[3]) +
                            "; allowed on a GPU: 1");
  }
  for (int i = 0; i < 3; ++i) {
    if (t.dims[i] > 1 && (t.strides[i] % step != 0 || t.strides[i] >= (int64_t{1} << 39))) {
      return invalid_argument(std::string(name) + ": stride " + std::to_string(i) + " is " +
                              std::to_string(t.strides[i]) + "; allowed on a GPU: a multiple of " +
                              std::to_string(step) + " below 2^39");
    }
  }
  return {};
}

/// Rows [first, first + count) of a [b, s, h, d] tensor, in boxes of `box_rows` by 64 columns.
TensorMapSpec map_spec(const Tensor& t, int64_t first, int64_t count, int box_rows) {
  const int64_t bytes = size_of(t.dtype);
  TensorMapSpec spec;
  spec.data = static_cast<const std::byte*>(t.data) + first * t.strides[1] * bytes;
  spec.dtype = t.dtype;
  spec.dims = {static_cast<uint64_t>(t.dims[3]), static_cast<uint64_t>(std::max<int64_t>(count, 1)),
               static_cast<uint64_t>(t.dims[2]), static_cast<uint64_t>(t.dims[0])};
  // A dimension of one element may have any stride; the driver wants a multiple of 16.
  const auto stride = [&](int i) {
    return static_cast<uint64_t>(t.dims[i] > 1 ? t.strides[i] * bytes : 16);
  };
  spec.strides = {stride(1), stride(2), stride(0)};
  spec.box = {kPanelCols, static_cast<uint32_t>(box_rows), 1, 1};
  return spec;
}

Status fill_maps(const Runtime& runtime, const ForwardConfig& config, const AttentionTensors& t,
                 core::Range keys, ForwardParams& params) {
  struct Entry {
    TensorMap& map;
    TensorMapSpec spec;
  };
  // With no key at all K and V are never read, but a map must describe something.
  const bool any = !keys.empty();
  const Entry entries[] = {
      {params.q, map_spec(t.q, 0, t.q.dims[1], kRowsPerWarpgroup)},
      {params.k, map_spec(any ? t.k : t.q, any ? keys.begin : 0, keys.size(), config.tile_keys)},
      {params.v, map_spec(any ? t.v : t.q, any ? keys.begin : 0, keys.size(), config.tile_keys)},
      {params.o, map_spec(t.out, 0, t.out.dims[1], kRowsPerWarpgroup)},
  };
  for (const Entry& entry : entries) {
    Status status = runtime.encode(entry.spec, entry.map);
    if (!status.ok()) return status;
  }
  return {};
}

/// Heads in sections whose K and V stay in the L2 cache while all of them are worked on: small ones
/// read the least from memory, but tiles of unequal length need many heads to even out.
ScheduleParams schedule(const core::Problem& problem, const ForwardConfig& config, int64_t keys) {
  ScheduleParams s{};
  const int64_t head_bytes = std::max<int64_t>(1, keys * (problem.dim_qk + problem.dim_v) * 2);
  const int64_t budget = config.dynamic ? int64_t{16} << 20 : int64_t{4} << 20;
  const int64_t heads = problem.heads_q * problem.batch;
  s.positions = ceil_div(problem.rows_q, config.warpgroups * kRowsPerWarpgroup);
  s.heads = static_cast<int32_t>(problem.heads_q);
  s.heads_total = static_cast<int32_t>(heads);
  s.section = static_cast<int32_t>(
      std::min(heads, std::max<int64_t>(1, budget / head_bytes) * problem.group));
  s.section_tiles = s.section * s.positions;
  s.tiles = s.heads_total * s.positions;
  return s;
}

}  // namespace

std::span<const ForwardTile> forward_tiles() { return kTiles; }

std::vector<ForwardConfig> all_forward_configs() {
  std::vector<ForwardConfig> configs;
  for (const ForwardTile& tile : kTiles) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      for (const bool right : {false, true}) {
        for (const bool left : {false, true}) {
          if (tile.max_band_keys != 0 && !left && !right) continue;
          configs.push_back(make_config(tile, dtype, tile.max_dim_qk, tile.max_dim_v, left, right));
        }
      }
    }
  }
  return configs;
}

ForwardConfig choose_forward(const core::Problem& problem) {
  const AttentionOptions& options = problem.spec.options;
  const bool left = options.window.left.has_value();
  const bool right = options.causal != Causal::kNone || options.window.right.has_value();
  const ForwardTile& tile = tile_for(problem.dim_qk, problem.dim_v, left || right, problem.rows_k);
  return make_config(tile, problem.dtype, static_cast<int>(problem.dim_qk),
                     static_cast<int>(problem.dim_v), left, right);
}

std::string unsupported_forward(const core::Problem& problem) {
  const AttentionProblem& spec = problem.spec;
  if (spec.pass != Pass::kForward) return "the backward";
  if (problem.dtype != DType::kBFloat16 && problem.dtype != DType::kFloat16) {
    return std::string(to_string(problem.dtype)) + " tensors, only bfloat16 and float16";
  }
  for (const int64_t dim : {problem.dim_qk, problem.dim_v}) {
    if (dim % 8 != 0 || dim > 256) {
      return "head dim " + std::to_string(dim) + ", only multiples of 8 up to 256";
    }
  }
  if (spec.bias.present()) return "bias";
  if (spec.mask.present()) return "mask";
  if (spec.alibi_slopes.present()) return "alibi_slopes";
  if (spec.sink.present()) return "sink";
  if (spec.options.softcap != 0) return "softcap";
  if (spec.options.dropout_p != 0) return "dropout";
  if (problem.packed_q || problem.packed_k) return "packed sequences (cu_seqlens)";
  if (spec.seqused_q.present() || spec.seqused_k.present()) return "seqused";
  if (spec.start_q.present() || spec.start_k.present()) return "start_q, start_k";
  if (problem.rows_q > kMaxRows || problem.rows_k > kMaxRows) {
    return "sequences longer than " + std::to_string(kMaxRows);
  }
  const int64_t tiles = ceil_div(problem.rows_q, kRowsPerWarpgroup);
  int64_t all = 0;
  if (__builtin_mul_overflow(problem.heads_q, problem.batch, &all) ||
      __builtin_mul_overflow(all, std::max<int64_t>(tiles, 1), &all) || all > kMaxRows) {
    return "more than " + std::to_string(kMaxRows) + " tiles of queries";
  }
  return {};
}

unsigned forward_shared_bytes(const ForwardConfig& c) {
  const int q = panel_bytes(kRowsPerWarpgroup, c.dim_qk);
  const int o = panel_bytes(kRowsPerWarpgroup, c.dim_v);
  const int query = c.warpgroups * (c.own_output ? q + o : std::max(q, o));
  const int k = c.stages * panel_bytes(c.tile_keys, c.dim_qk);
  const int v = c.stages * panel_bytes(c.tile_keys, c.dim_v);
  const int barriers = 8 * (2 * c.warpgroups + 4 * c.stages) + 40;  // and the tile queue
  return static_cast<unsigned>(round_up(query + k + v + barriers, 1024));
}

jit::Program forward_program(const ForwardConfig& c) {
  const auto field = [](const char* name, auto value) {
    if constexpr (std::is_same_v<decltype(value), bool>) {
      return "    ." + std::string(name) + " = " + text_of(value) + ",\n";
    } else {
      return "    ." + std::string(name) + " = " + std::to_string(value) + ",\n";
    }
  };
  jit::Program program;
  program.target = "sm_90a";
  program.source =
      "#include \"sm90/forward.cuh\"\n"
      "using namespace fa4;\n"
      "constexpr sm90::ForwardConfig kConfig = {\n" +
      field("dim_qk", c.dim_qk) + field("dim_v", c.dim_v) + field("tile_keys", c.tile_keys) +
      field("warpgroups", c.warpgroups) + field("stages", c.stages) +
      field("consumer_registers", c.consumer_registers) +
      field("producer_registers", c.producer_registers) + field("left", c.left) +
      field("right", c.right) + field("own_output", c.own_output) +
      field("order", static_cast<int>(c.order)) + field("dynamic", c.dynamic) +
      field("q_registers", c.q_registers) + field("polynomial_share", c.polynomial_share) +
      "};\n"
      "static_assert(sizeof(sm90::Shared<kConfig>) == " +
      std::to_string(forward_shared_bytes(c)) +
      ");\n"
      "extern \"C\" __global__ void __launch_bounds__(sm90::Shapes<kConfig>::kThreads, 1)\n"
      "    fa4_forward(const __grid_constant__ sm90::ForwardParams params) {\n"
      "  sm90::forward<" +
      (c.dtype == DType::kBFloat16 ? "Bf16" : "Fp16") +
      ", kConfig>(params);\n"
      "}\n";
  return program;
}

Result<Forward> Forward::make(const Runtime& runtime, const core::Problem& problem) {
  const ForwardConfig config = choose_forward(problem);
  auto kernel = jit::load_kernel(runtime, forward_program(config), "fa4_forward",
                                 forward_shared_bytes(config));
  if (!kernel.ok()) return kernel.status();
  return Forward(runtime, config, *std::move(kernel));
}

Status Forward::run(const core::Problem& problem, const AttentionTensors& t, void* workspace,
                    Stream stream) const {
  if (problem.rows_q == 0 || problem.batch == 0 || problem.heads_q == 0) return {};
  for (const auto& [name, tensor] : {std::pair{"q", &t.q}, std::pair{"k", &t.k},
                                     std::pair{"v", &t.v}, std::pair{"out", &t.out}}) {
    Status status = check_tensor(name, *tensor);
    if (!status.ok()) return status;
  }
  const core::Sequence sequence = geometry(problem);
  const core::Range keys = visible_keys(problem);
  ForwardParams params{};
  Status status = fill_maps(*runtime_, config_, t, keys, params);
  if (!status.ok()) return status;
  if (t.lse.present()) {
    params.lse = t.lse.data;
    params.lse_batch = t.lse.strides[0];
    params.lse_head = t.lse.strides[1];
    params.lse_row = t.lse.strides[2];
  }
  params.rows_q = static_cast<int32_t>(problem.rows_q);
  params.rows_k = static_cast<int32_t>(keys.size());
  params.group = static_cast<int32_t>(problem.group);
  params.diagonal = static_cast<int32_t>(sequence.diagonal - keys.begin);
  params.left = static_cast<int32_t>(sequence.left);
  params.right = static_cast<int32_t>(sequence.right);
  // A scale of 0 would turn a hidden score into NaN; the smallest number does what 0 does.
  params.scale = static_cast<float>(problem.scale * std::numbers::log2e);
  if (params.scale == 0) params.scale = std::numeric_limits<float>::min();
  params.hidden = std::copysign(std::numeric_limits<float>::infinity(), -params.scale);
  params.counter = workspace;
  params.schedule = schedule(problem, config_, keys.size());

  if (config_.dynamic) {
    status = runtime_->fill(workspace, 0, 1, stream);
    if (!status.ok()) return status;
  }
  Launch launch;
  launch.blocks = static_cast<unsigned>(
      std::min(params.schedule.tiles, runtime_->properties().multiprocessors));
  launch.threads = static_cast<unsigned>((config_.warpgroups + 1) * kWarpgroupThreads);
  launch.shared_bytes = forward_shared_bytes(config_);
  return runtime_->launch(*kernel_, launch, std::as_writable_bytes(std::span(&params, 1)), stream);
}

std::string Forward::describe() const {
  const ForwardConfig& c = config_;
  return "kernel: sm90 forward, " + std::string(to_string(c.dtype)) + ", head dims " +
         std::to_string(c.dim_qk) + " and " + std::to_string(c.dim_v) +
         "\ntiles: " + std::to_string(c.warpgroups * kRowsPerWarpgroup) + " queries, " +
         std::to_string(c.tile_keys) + " keys, " + std::to_string(c.stages) +
         " stages\nregisters: " + std::to_string(c.consumer_registers) + " a consumer thread, " +
         std::to_string(c.producer_registers) +
         " a producer thread\nshared memory: " + std::to_string(forward_shared_bytes(c)) +
         " bytes\nschedule: " +
         (c.dynamic ? "next tile by a counter\n" : "tiles dealt out at launch\n");
}

}  // namespace fa4::gpu::sm90
