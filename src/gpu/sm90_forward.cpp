// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/sm90_forward.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/sequence.h"
#include "gpu/jit/kernels.h"

namespace fa4::gpu::sm90 {
namespace {

constexpr int kRowsPerWarp = 16;
constexpr int kLengthsThreads = 1024;

// The kernels' parameters, field by field.
struct ScheduleParams {
  int32_t tiles, positions, heads, heads_total, section, section_tiles, tile_rows, first_row;
  int32_t cta_rows, sharing, halves;
};
struct TileList {
  const void *count, *tiles, *sequences;
};
struct ScoreTensor {
  const void* data;
  int64_t batch, head, row, key;
};
struct ScoreParams {
  ScoreTensor bias, mask;
  const void* slopes;
  int64_t slope_batch, slope_head;
  float scale, cap, to_cap;
  int32_t first_key;
};
struct ForwardParams {
  TensorMap q, o, k, v;
  void* out;
  int64_t out_batch, out_row, out_head;
  void* lse;
  int64_t lse_batch, lse_head, lse_row;
  const void* sink;
  int64_t sink_head;
  void* counter;
  uint64_t launch;
  TileList list;
  ScoreParams score;
  ScheduleParams schedule;
  int32_t sink_type, rows_q, rows_k, group, diagonal, top_left, left, right;
  int32_t pack_heads, pack_rows, pack_inverse, dim_v, q_batched, k_batched;
  float scale, hidden;
};
static_assert(sizeof(ForwardParams) == kForwardParamsBytes);

struct IndexTensor {
  const void* data;
  int64_t stride, wide;
};
struct SideLengths {
  IndexTensor cu_seqlens, used, start;
  int64_t rows;
};
struct LengthsParams {
  SideLengths q, k;
  int32_t batch, tile_rows, block_rows, tile_keys, top_left, left, right, unused;
  void *counter, *count, *tiles, *sequences;
};
static_assert(sizeof(LengthsParams) == kLengthsParamsBytes);

/// Where things lie in a workspace.
struct WorkspaceLayout {
  static constexpr size_t kCounter = 0;
  static constexpr size_t kCount = 16;
  static constexpr size_t kSequences = 64;
  static constexpr size_t kSequenceBytes = 32;
  static constexpr size_t kTileBytes = 8;
  size_t tiles = 64;
  size_t bytes = 64;
};

/// A number for a launch that no other has: even, counted on from anywhere. A workspace that holds
/// it by chance, left by somebody else, would spoil that launch: once in 2^63.
uint64_t next_launch() {
  static std::atomic<uint64_t> next = [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    const uint64_t seed = static_cast<uint64_t>(now) ^ reinterpret_cast<uintptr_t>(&now) << 20U;
    return seed * 0x9e3779b97f4a7c15U << 1U;
  }();
  return next.fetch_add(2, std::memory_order_relaxed);
}

/// Rows of q that a tile holds of each of its heads.
int tile_rows(const ForwardConfig& config, const core::Problem& problem) {
  return config.ctas() * config.warpgroups * pack_rows(config, problem.group);
}

/// At most how many tiles of queries a head has, over all sequences.
int64_t most_tiles(const ForwardConfig& config, const core::Problem& problem) {
  const int rows = tile_rows(config, problem);
  return problem.packed_q ? problem.rows_q / rows + problem.batch + 1
                          : problem.batch * ceil_div(problem.rows_q, rows);
}

WorkspaceLayout layout_of(const ForwardConfig& config, const core::Problem& problem) {
  WorkspaceLayout layout;
  if (!config.varlen) return layout;
  layout.tiles = WorkspaceLayout::kSequences +
                 static_cast<size_t>(problem.batch + 1) * WorkspaceLayout::kSequenceBytes;
  layout.bytes =
      layout.tiles + static_cast<size_t>(most_tiles(config, problem)) * WorkspaceLayout::kTileBytes;
  return layout;
}

/// Keys that some row sees, where all sequences are alike. Only they are given to the kernel: what
/// lies beyond may hold NaN.
core::Range visible_keys(const core::Problem& problem, const core::Sequence& sequence) {
  const core::Range keys = sequence.keys_of_rows({0, problem.rows_q});
  return keys.empty() ? core::Range{0, 0} : keys;
}

/// A [b, s, h, d] or [total, h, d] tensor, as [b, s, h, d].
Tensor with_batch(const Tensor& t) {
  if (t.rank == 4) return t;
  Tensor r = t;
  r.rank = 4;
  r.dims = {1, t.dims[0], t.dims[1], t.dims[2]};
  r.strides = {0, t.strides[0], t.strides[1], t.strides[2]};
  return r;
}

/// What the copy engine wants of a tensor, or an error that names it.
Status check_tensor(const char* name, const Tensor& t) {
  const int64_t step = 16 / size_of(t.dtype);
  const int last = t.rank - 1;
  if (reinterpret_cast<uintptr_t>(t.data) % 16 != 0) {
    return invalid_argument(std::string(name) +
                            ": data is not aligned; allowed on a GPU: a multiple of 16 bytes");
  }
  if (t.strides[last] != 1 && t.dims[last] > 1) {
    return invalid_argument(std::string(name) + ": stride " + std::to_string(last) + " is " +
                            std::to_string(t.strides[last]) + "; allowed on a GPU: 1");
  }
  for (int i = 0; i < last; ++i) {
    if (t.dims[i] > 1 && (t.strides[i] % step != 0 || t.strides[i] >= (int64_t{1} << 38))) {
      return invalid_argument(std::string(name) + ": stride " + std::to_string(i) + " is " +
                              std::to_string(t.strides[i]) + "; allowed on a GPU: a multiple of " +
                              std::to_string(step) + " below 2^38");
    }
  }
  return {};
}

/// A bias's or a mask's stride over the keys is counted in 32 bits.
Status check_score_tensor(const char* name, const Tensor& t) {
  if (!t.present() || t.dims[3] <= 1) return {};
  const int64_t most = (int64_t{1} << 31) / size_of(t.dtype);
  if (t.strides[3] < most) return {};
  return invalid_argument(std::string(name) + ": stride 3 is " + std::to_string(t.strides[3]) +
                          "; allowed on a GPU: below " + std::to_string(most));
}

Status check_tensors(const AttentionTensors& t) {
  Status status;
  for (const auto& [name, tensor] : {std::pair{"q", &t.q}, std::pair{"k", &t.k},
                                     std::pair{"v", &t.v}, std::pair{"out", &t.out}}) {
    if (status.ok()) status = check_tensor(name, *tensor);
  }
  if (status.ok()) status = check_score_tensor("bias", t.bias);
  if (status.ok()) status = check_score_tensor("mask", t.mask);
  return status;
}

/// A dimension of one element may have any stride; the driver wants a multiple of 16.
uint64_t stride_bytes(const Tensor& t, int i) {
  return static_cast<uint64_t>(t.dims[i] > 1 ? t.strides[i] * size_of(t.dtype) : 16);
}

/// Rows [first, first + count) of keys or values, in boxes of `box_rows` by 64 columns.
TensorMapSpec key_map(const Tensor& t, int64_t first, int64_t count, int box_rows) {
  TensorMapSpec spec;
  spec.rank = 4;
  spec.data = static_cast<const std::byte*>(t.data) + first * t.strides[1] * size_of(t.dtype);
  spec.dtype = t.dtype;
  spec.dims = {static_cast<uint64_t>(t.dims[3]), static_cast<uint64_t>(std::max<int64_t>(count, 1)),
               static_cast<uint64_t>(t.dims[2]), static_cast<uint64_t>(t.dims[0])};
  spec.strides = {stride_bytes(t, 1), stride_bytes(t, 2), stride_bytes(t, 0)};
  spec.box = {kPanelCols, static_cast<uint32_t>(box_rows), 1, 1};
  return spec;
}

/// Queries or outputs, `heads` heads and `rows` positions a box.
TensorMapSpec query_map(const Tensor& t, int heads, int rows) {
  TensorMapSpec spec;
  spec.rank = 5;
  spec.data = t.data;
  spec.dtype = t.dtype;
  spec.dims = {static_cast<uint64_t>(t.dims[3]), static_cast<uint64_t>(heads),
               static_cast<uint64_t>(t.dims[1]), static_cast<uint64_t>(t.dims[2] / heads),
               static_cast<uint64_t>(t.dims[0])};
  const uint64_t head = stride_bytes(t, 2);
  spec.strides = {heads > 1 ? head : 16, stride_bytes(t, 1), head * static_cast<uint64_t>(heads),
                  stride_bytes(t, 0)};
  spec.box = {kPanelCols, static_cast<uint32_t>(heads), static_cast<uint32_t>(rows), 1, 1};
  return spec;
}

Status fill_maps(const Runtime& runtime, const ForwardConfig& config, const AttentionTensors& t,
                 core::Range keys, ForwardParams& params) {
  struct Entry {
    TensorMap& map;
    TensorMapSpec spec;
  };
  // With no key at all K and V are never read, but a map must describe something.
  const bool any = !keys.empty() && t.k.dims[0] > 0;
  const Tensor k = with_batch(any ? t.k : t.q), v = with_batch(any ? t.v : t.q);
  const int64_t first = any ? keys.begin : 0;
  // Where a warp's rows are not whole positions of all heads, it does not use its map.
  const int out_rows = std::max(1, kRowsPerWarp / params.pack_heads);
  const Entry entries[] = {
      {params.q, query_map(with_batch(t.q), params.pack_heads, params.pack_rows)},
      {params.o, query_map(with_batch(t.out), params.pack_heads, out_rows)},
      {params.k, key_map(k, first, keys.size(), config.tile_keys / config.ctas())},
      {params.v, key_map(v, first, keys.size(), config.tile_keys / config.ctas())},
  };
  for (const Entry& entry : entries) {
    Status status = runtime.encode(entry.spec, entry.map);
    if (!status.ok()) return status;
  }
  return {};
}

/// The kernel's enum.
enum class Sharing : int32_t { kRows, kHeads };

/// Tiles of one sequence: how many, how high, where the first begins. They end with the sequence,
/// so that what does not fill one is left before the first. Where that fits a CTA of a pair, it is
/// a tile of its own, which the pair takes of two heads at once.
void set_rows(const core::Problem& problem, const ForwardConfig& config, ScheduleParams& s) {
  const int block = pack_rows(config, problem.group);
  const auto end = static_cast<int32_t>(ceil_div(problem.rows_q, block) * block);
  const bool rows = s.sharing == static_cast<int32_t>(Sharing::kRows);
  s.cta_rows = config.warpgroups * block;
  s.tile_rows = rows ? tile_rows(config, problem) : s.cta_rows;
  const int32_t left = end % s.tile_rows;
  s.halves = rows && config.pair && !config.varlen && left > 0 && left <= s.cta_rows ? 1 : 0;
  s.positions =
      s.halves != 0 ? end / s.tile_rows : static_cast<int32_t>(ceil_div(end, s.tile_rows));
  s.first_row = end - s.positions * s.tile_rows;
}

/// Heads in sections whose K and V stay in the L2 cache while all of them are worked on: small ones
/// read the least from memory, but tiles of unequal length need many heads to even out.
ScheduleParams schedule(const core::Problem& problem, const ForwardConfig& config, int64_t keys) {
  ScheduleParams s{};
  const bool two_heads = config.pair && !config.varlen && !config.packed && problem.group % 2 == 0;
  s.sharing = static_cast<int32_t>(two_heads ? Sharing::kHeads : Sharing::kRows);
  set_rows(problem, config, s);
  const int64_t heads = config.packed ? problem.heads_k : problem.heads_q;
  s.heads = static_cast<int32_t>(heads);
  if (config.varlen) return s;
  const int64_t head_bytes = std::max<int64_t>(1, keys * (problem.dim_qk + problem.dim_v) * 2);
  const int64_t budget = config.dynamic ? int64_t{16} << 20 : int64_t{4} << 20;
  const int64_t together = two_heads ? 2 : 1;
  const int64_t total = heads * problem.batch / together;
  int64_t section = std::max<int64_t>(1, budget / head_bytes);
  if (!config.packed) section *= problem.group / together;
  if (s.halves != 0) section += section % 2;
  s.heads_total = static_cast<int32_t>(total);
  s.section = static_cast<int32_t>(std::min(total, section));
  const auto tiles_of = [&](int64_t n) {
    return static_cast<int32_t>(n * s.positions + s.halves * ceil_div(n, 2));
  };
  s.section_tiles = tiles_of(s.section);
  s.tiles = static_cast<int32_t>(total / s.section) * s.section_tiles + tiles_of(total % s.section);
  return s;
}

ScoreTensor score_tensor(const Tensor& t) {
  if (!t.present()) return {};
  const auto stride = [&](int i) { return t.dims[i] == 1 ? 0 : t.strides[i] * size_of(t.dtype); };
  return {t.data, stride(0), stride(1), stride(2), stride(3)};
}

/// Scale, softcap, ALiBi, bias, mask, sink.
void set_scores(const ForwardConfig& config, const core::Problem& problem,
                const AttentionTensors& t, ForwardParams& params) {
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr auto kLog2E = static_cast<float>(std::numbers::log2e);
  const double softcap = problem.spec.options.softcap;
  ScoreParams& s = params.score;
  s.bias = score_tensor(t.bias);
  s.mask = score_tensor(t.mask);
  s.scale = static_cast<float>(problem.scale);
  if (softcap != 0) {
    s.cap = static_cast<float>(softcap);
    s.to_cap = static_cast<float>(std::clamp<double>(problem.scale / softcap, -kMost, kMost));
  }
  if (t.alibi_slopes.present()) {
    const int last = t.alibi_slopes.rank - 1;
    s.slopes = t.alibi_slopes.data;
    s.slope_batch = last == 1 ? t.alibi_slopes.strides[0] : 0;
    s.slope_head = t.alibi_slopes.strides[last];
  }
  if (t.sink.present()) {
    params.sink = t.sink.data;
    params.sink_head = t.sink.strides[0] * size_of(t.sink.dtype);
    params.sink_type = static_cast<int32_t>(scalar_of(spec_of(t.sink)));
  }
  // A scale of 0 would turn a hidden score into NaN; the smallest number does what 0 does.
  params.scale = config.score.any() ? kLog2E : static_cast<float>(problem.scale) * kLog2E;
  if (params.scale == 0) params.scale = std::numeric_limits<float>::min();
  params.hidden = std::copysign(std::numeric_limits<float>::infinity(), -params.scale);
}

void set_outputs(const core::Problem& problem, const AttentionTensors& t, ForwardParams& params) {
  const Tensor out = with_batch(t.out);
  params.out = out.data;
  params.out_batch = out.strides[0];
  params.out_row = out.strides[1];
  params.out_head = out.strides[2];
  params.dim_v = static_cast<int32_t>(problem.dim_v);
  params.q_batched = problem.packed_q ? 0 : 1;
  params.k_batched = problem.packed_k ? 0 : 1;
  if (!t.lse.present()) return;
  const int head = problem.packed_q ? 0 : 1;
  params.lse = t.lse.data;
  params.lse_batch = problem.packed_q ? 0 : t.lse.strides[0];
  params.lse_head = t.lse.strides[head];
  params.lse_row = t.lse.strides[head + 1];
}

IndexTensor index_tensor(const Tensor& t) {
  return {t.present() ? t.data : nullptr, t.strides[0], t.dtype == DType::kInt64 ? 1 : 0};
}

/// How far a window reaches; further than all rows together is the same as without end.
int32_t reach(const std::optional<int64_t>& limit, const core::Problem& problem) {
  const int64_t unlimited = problem.rows_q + problem.rows_k;
  return static_cast<int32_t>(std::min(limit.value_or(unlimited), unlimited));
}

void set_band(const core::Problem& problem, ForwardParams& params) {
  const AttentionOptions& options = problem.spec.options;
  params.left = reach(options.window.left, problem);
  params.right = reach(options.window.right, problem);
  if (options.causal != Causal::kNone) params.right = std::min(params.right, 0);
  params.top_left = options.causal == Causal::kTopLeft ? 1 : 0;
}

}  // namespace

Result<Forward> Forward::make(const Runtime& runtime, const core::Problem& problem) {
  return make(runtime, problem, choose_forward(problem, runtime.properties().pair_keys));
}

Result<Forward> Forward::make(const Runtime& runtime, const core::Problem& problem,
                              const ForwardConfig& config) {
  Forward forward(runtime);
  forward.config_ = config;
  const auto load = [&](const KernelConfig& kernel) {
    return jit::load_kernel(runtime, kernel.program, kernel.entry, kernel.shared_bytes);
  };
  auto kernel = load(forward_kernel(forward.config_));
  if (!kernel.ok()) return kernel.status();
  forward.kernel_ = *std::move(kernel);
  if (forward.config_.varlen) {
    auto lengths = load(lengths_kernel());
    if (!lengths.ok()) return lengths.status();
    forward.lengths_ = *std::move(lengths);
  }
  if (forward.config_.dynamic) forward.workspace_bytes_ = layout_of(forward.config_, problem).bytes;
  return forward;
}

namespace {

/// Points `params` at the list in the workspace and puts the kernel that writes it on the stream.
Status launch_lengths(const Runtime& runtime, const Kernel& kernel, const ForwardConfig& config,
                      const core::Problem& problem, const AttentionTensors& t, void* workspace,
                      ForwardParams& params, Stream stream) {
  const WorkspaceLayout layout = layout_of(config, problem);
  auto* bytes = static_cast<std::byte*>(workspace);
  LengthsParams lengths{};
  lengths.q = {index_tensor(t.cu_seqlens_q), index_tensor(t.seqused_q), index_tensor(t.start_q),
               problem.rows_q};
  lengths.k = {index_tensor(t.cu_seqlens_k), index_tensor(t.seqused_k), index_tensor(t.start_k),
               problem.rows_k};
  lengths.batch = static_cast<int32_t>(problem.batch);
  lengths.tile_rows = tile_rows(config, problem);
  lengths.block_rows = pack_rows(config, problem.group);
  lengths.tile_keys = config.tile_keys;
  lengths.top_left = params.top_left;
  lengths.left = params.left;
  lengths.right = params.right;
  lengths.counter = bytes + WorkspaceLayout::kCounter;
  lengths.count = bytes + WorkspaceLayout::kCount;
  lengths.sequences = bytes + WorkspaceLayout::kSequences;
  lengths.tiles = bytes + layout.tiles;
  params.list = {lengths.count, lengths.tiles, lengths.sequences};
  Launch launch;
  launch.threads = kLengthsThreads;
  return runtime.launch(kernel, launch, std::as_bytes(std::span(&lengths, 1)), stream);
}

}  // namespace

Status Forward::run(const core::Problem& problem, const AttentionTensors& t, void* workspace,
                    Stream stream) const {
  if (problem.total_q() == 0 || problem.heads_q == 0) return {};
  Status status = check_tensors(t);
  if (!status.ok()) return status;

  ForwardParams params{};
  set_band(problem, params);
  core::Range keys = {0, problem.rows_k};
  if (!config_.varlen) {
    const core::Sequence sequence = core::sequence_of(problem, AttentionTensors{}, 0);
    keys = visible_keys(problem, sequence);
    params.diagonal = static_cast<int32_t>(sequence.diagonal - keys.begin);
  }
  params.rows_q = static_cast<int32_t>(problem.rows_q);
  params.rows_k = static_cast<int32_t>(keys.size());
  params.group = static_cast<int32_t>(problem.group);
  params.pack_heads = config_.packed ? params.group : 1;
  params.pack_rows = pack_rows(config_, problem.group);
  params.pack_inverse = (65536 + params.pack_heads - 1) / params.pack_heads;
  params.counter = workspace;
  params.launch = next_launch();
  params.schedule = schedule(problem, config_, keys.size());
  set_scores(config_, problem, t, params);
  params.score.first_key = static_cast<int32_t>(keys.begin);
  set_outputs(problem, t, params);
  status = fill_maps(*runtime_, config_, t, keys, params);

  int64_t tiles = params.schedule.tiles;
  if (status.ok() && config_.varlen) {
    tiles = most_tiles(config_, problem) * params.schedule.heads;
    status = launch_lengths(*runtime_, *lengths_, config_, problem, t, workspace, params, stream);
  }
  if (!status.ok()) return status;
  Launch launch;
  const int ctas = config_.ctas();
  launch.blocks = static_cast<unsigned>(
      ctas * std::min<int64_t>(tiles, std::max(1, runtime_->properties().multiprocessors / ctas)));
  launch.cluster = static_cast<unsigned>(ctas);
  launch.threads = static_cast<unsigned>((config_.warpgroups + 1) * kWarpgroupThreads);
  launch.shared_bytes = forward_shared_bytes(config_);
  launch.overlaps_previous = true;
  return runtime_->launch(*kernel_, launch, std::as_bytes(std::span(&params, 1)), stream);
}

std::string Forward::describe() const {
  const ForwardConfig& c = config_;
  const char* schedule = c.varlen    ? "tiles listed on the device, longest first"
                         : c.dynamic ? "next tile by a counter"
                                     : "tiles dealt out at launch";
  return "kernel: sm90 forward, " + to_string(c) + "\nstages: " + std::to_string(c.stages) +
         "\nregisters: " + std::to_string(c.consumer_registers) + " a consumer thread, " +
         std::to_string(c.producer_registers) +
         " a producer thread\nshared memory: " + std::to_string(forward_shared_bytes(c)) +
         " bytes\nschedule: " + schedule + (c.pair ? "; pairs of CTAs share K and V\n" : "\n");
}

}  // namespace fa4::gpu::sm90
