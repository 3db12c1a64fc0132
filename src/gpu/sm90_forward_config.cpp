// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/sm90_forward_config.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace fa4::gpu::sm90 {
namespace {

// CPU seconds of a compile, the aim. A bias or a mask is a load with its address for every score.
constexpr double kBudget = 0.6;
constexpr double kModifierBudget = 0.9;

constexpr int kAny = std::numeric_limits<int>::max();

/// Measured on an H200: docs/notes/sm90_forward.md. The rows with a bias or a mask are what fits
/// the registers.
constexpr ForwardTile kTiles[] = {
    // d_qk, d_v, keys, keys of bands, hides, pair, tile of keys, warpgroups, stages, panels of O,
    // order, overlap
    {64, 64, kAny, kAny, true, false, 64, 2, 3, 1, Order::kNone, false},
    {128, 128, kAny, kAny, true, false, 48, 2, 3, 2, Order::kNone, false},
    {192, 192, kAny, kAny, true, false, 32, 2, 3, 3, Order::kNone, false},
    {256, 256, kAny, kAny, true, false, 16, 2, 3, 4, Order::kNone, false},
    {64, 64, 2048, 2048, false, false, 64, 4, 5, 1, Order::kNone, false},
    {64, 64, kAny, kAny, false, true, 128, 3, 4, 1, Order::kNone, false},
    {64, 64, kAny, kAny, false, false, 128, 3, 3, 1, Order::kNone, false},
    {96, 96, kAny, kAny, false, false, 112, 3, 2, 2, Order::kProducts, false},
    {128, 128, kAny, kAny, false, true, 64, 3, 4, 1, Order::kProducts, true},
    {128, 128, kAny, kAny, false, false, 64, 3, 3, 2, Order::kProducts, true},
    {192, 128, kAny, kAny, false, true, 64, 3, 3, 1, Order::kProducts, false},
    {192, 128, kAny, kAny, false, false, 64, 3, 3, 1, Order::kProducts, false},
    {192, 192, kAny, kAny, false, false, 96, 2, 2, 2, Order::kProducts, false},
    {256, 256, kAny, kAny, false, false, 64, 2, 2, 2, Order::kProducts, false},
};

int round_up(int64_t x, int to) { return static_cast<int>((x + to - 1) / to * to); }

/// What a problem asks of a kernel beside its head dims.
struct Traits {
  DType dtype = DType::kBFloat16;
  bool left = false;
  bool right = false;
  bool varlen = false;
  bool packed = false;
  ScoreConfig score{};
};

/// Of 65536 registers, what each thread gets when a CTA starts. See Shapes in the kernel.
int registers_at_launch(const ForwardConfig& c) {
  return 65536 / ((c.warpgroups + 1) * kWarpgroupThreads) / 8 * 8;
}

/// Bias and mask take the cleaning warp some address arithmetic.
void set_registers(ForwardConfig& c) {
  const bool many = c.warpgroups > 2;
  c.producer_registers = c.score.hides() ? (many ? 56 : 72) : (many ? 32 : 40);
  const int all = (c.warpgroups + 1) * registers_at_launch(c);
  c.consumer_registers = std::min(240, (all - c.producer_registers) / c.warpgroups / 8 * 8);
}

ForwardConfig make_config(const ForwardTile& tile, const Traits& traits, int dim_qk, int dim_v) {
  ForwardConfig c;
  c.dtype = traits.dtype;
  c.dim_qk = round_up(dim_qk, 16);
  c.dim_v = round_up(dim_v, 16);
  c.tile_keys = tile.tile_keys;
  // A number of float64 takes two registers on its way.
  if (traits.score.bias == Scalar::kFloat64) c.tile_keys = std::min(c.tile_keys, 48);
  c.warpgroups = tile.warpgroups;
  c.stages = tile.stages;
  c.left = traits.left;
  c.right = traits.right;
  c.varlen = traits.varlen;
  c.packed = traits.packed;
  c.output_panels = std::min(tile.output_panels, static_cast<int>(ceil_div(c.dim_v, kPanelCols)));
  c.overlap = tile.overlap && !traits.score.any();
  c.pair = tile.pair;
  c.order = c.overlap ? Order::kNone : tile.order;  // what overlaps by itself needs no turns
  // Where tiles of queries differ in length; 192 rows mostly leave a short one.
  c.dynamic = c.left || c.right || c.varlen || c.warpgroups == 3;
  c.score = traits.score;
  set_registers(c);
  return c;
}

/// The row of the table for a problem.
const ForwardTile& tile_for(const core::Problem& problem, const Traits& traits, int64_t pair_keys) {
  const bool band = traits.left || traits.right;
  const int64_t keys = problem.max_rows_k();
  const int64_t rows = problem.max_rows_q() * (traits.packed ? problem.group : 1);
  return *std::find_if(std::begin(kTiles), std::end(kTiles), [&](const ForwardTile& tile) {
    const bool pairs =
        !traits.varlen && keys >= pair_keys && rows > tile.warpgroups * kRowsPerWarpgroup;
    if (tile.pair && !pairs) return false;
    return problem.dim_qk <= tile.max_dim_qk && problem.dim_v <= tile.max_dim_v &&
           tile.hides == traits.score.hides() &&
           keys <= (band ? tile.max_band_keys : tile.max_keys);
  });
}

bool is_varlen(const core::Problem& problem) {
  const AttentionProblem& spec = problem.spec;
  for (const TensorSpec* lengths : {&spec.cu_seqlens_q, &spec.cu_seqlens_k, &spec.seqused_q,
                                    &spec.seqused_k, &spec.start_q, &spec.start_k}) {
    if (lengths->present()) return true;
  }
  return false;
}

/// Whether a tile should hold the rows of a whole group of query heads: where that makes fewer
/// tiles, or no more under a band, whose edge then cuts fewer of them.
bool packs(const core::Problem& problem, const Traits& traits) {
  if (problem.group == 1 || problem.group > kRowsPerWarpgroup || traits.score.hides()) return false;
  const int64_t rows = kRowsPerWarpgroup / problem.group;
  const int64_t longest = problem.max_rows_q();
  const int64_t packed = ceil_div(longest, rows);
  const int64_t apart = problem.group * ceil_div(longest, kRowsPerWarpgroup);
  return packed < apart || ((traits.left || traits.right) && packed == apart);
}

int panel_bytes(int rows, int cols) { return round_up(cols, kPanelCols) * rows * 2; }

const char* text_of(bool x) { return x ? "true" : "false"; }

std::string field(const char* name, bool value) {
  return "    ." + std::string(name) + " = " + text_of(value) + ",\n";
}
std::string field(const char* name, int value) {
  return "    ." + std::string(name) + " = " + std::to_string(value) + ",\n";
}

}  // namespace

Scalar scalar_of(const TensorSpec& spec) {
  if (!spec.present()) return Scalar::kAbsent;
  switch (spec.dtype) {
    case DType::kFloat32:
      return Scalar::kFloat32;
    case DType::kFloat64:
      return Scalar::kFloat64;
    case DType::kBFloat16:
      return Scalar::kBFloat16;
    default:
      return Scalar::kFloat16;
  }
}

std::span<const ForwardTile> forward_tiles() { return kTiles; }

std::vector<ForwardConfig> all_forward_configs() {
  std::vector<ForwardConfig> configs;
  for (const ForwardTile& tile : kTiles) {
    const auto add = [&](const Traits& traits) {
      if (tile.pair && traits.varlen) return;
      const ForwardConfig c = make_config(tile, traits, tile.max_dim_qk, tile.max_dim_v);
      if (std::find(configs.begin(), configs.end(), c) == configs.end()) configs.push_back(c);
    };
    if (tile.hides) {
      add({.score = {.mask = true}});
      add({.right = true, .varlen = true, .score = {.mask = true}});
      add({.score = {.bias = Scalar::kFloat32}});
      add({.score = {.bias = Scalar::kBFloat16}});
      add({.dtype = DType::kFloat16, .score = {.bias = Scalar::kFloat16}});
      add({DType::kBFloat16, true, true, true, false, {true, true, true, Scalar::kFloat64}});
      continue;
    }
    if (tile.max_keys > 0) {
      add({});
      add({.dtype = DType::kFloat16});
    }
    add({.right = true});
    add({.dtype = DType::kFloat16, .right = true});
    add({.left = true, .right = true});
    add({.right = true, .varlen = true});
    add({.right = true, .packed = true});
    add({.left = true, .right = true, .varlen = true, .packed = true});
    add({.right = true, .score = {.softcap = true}});
    add({DType::kBFloat16, true, true, true, true, {true, true, false, Scalar::kAbsent}});
  }
  return configs;
}

ForwardConfig choose_forward(const core::Problem& problem, int64_t pair_keys) {
  const AttentionProblem& spec = problem.spec;
  Traits traits;
  traits.dtype = problem.dtype;
  traits.left = spec.options.window.left.has_value();
  traits.right = spec.options.causal != Causal::kNone || spec.options.window.right.has_value();
  traits.varlen = is_varlen(problem);
  traits.score.softcap = spec.options.softcap != 0;
  traits.score.alibi = spec.alibi_slopes.present();
  traits.score.mask = spec.mask.present();
  traits.score.bias = scalar_of(spec.bias);
  traits.packed = packs(problem, traits);
  return make_config(tile_for(problem, traits, pair_keys), traits, static_cast<int>(problem.dim_qk),
                     static_cast<int>(problem.dim_v));
}

Result<ForwardConfig> vary(ForwardConfig config, std::string_view changes) {
  struct Field {
    const char* name;
    int value, least, most, step;
  };
  Field fields[] = {
      {"tile_keys", config.tile_keys, 16, 256, 16},
      {"warpgroups", config.warpgroups, 1, 4, 1},
      {"stages", config.stages, 1, 16, 1},
      {"order", static_cast<int>(config.order), 0, 2, 1},
      {"output_panels", config.output_panels, 1, 4, 1},
      {"dynamic", config.dynamic, 0, 1, 1},
      {"q_registers", config.q_registers, 0, 1, 1},
      {"always_rescale", config.always_rescale, 0, 1, 1},
      {"polynomial_share", config.polynomial_share, 0, 16, 1},
      {"overlap", config.overlap, 0, 1, 1},
      {"pair", config.pair, 0, 1, 1},
  };
  std::string allowed;
  for (const Field& f : fields) {
    allowed += std::string(allowed.empty() ? "" : ", ") + f.name + "=" + std::to_string(f.least) +
               ".." + std::to_string(f.most);
  }
  while (!changes.empty()) {
    const std::string_view change = changes.substr(0, changes.find(','));
    changes.remove_prefix(std::min(changes.size(), change.size() + 1));
    const size_t equal = std::min(change.find('='), change.size());
    const std::string_view digits = change.substr(std::min(equal + 1, change.size()));
    int value = 0;
    const auto [rest, error] = std::from_chars(digits.begin(), digits.end(), value);
    Field* field = std::find_if(std::begin(fields), std::end(fields),
                                [&](const Field& f) { return change.substr(0, equal) == f.name; });
    if (field == std::end(fields) || error != std::errc() || rest != digits.end() ||
        value < field->least || value > field->most || value % field->step != 0) {
      return invalid_argument("variant: has \"" + std::string(change) + "\"; allowed: " + allowed +
                              "; tile_keys in steps of 16");
    }
    field->value = value;
  }
  config.tile_keys = fields[0].value;
  config.warpgroups = fields[1].value;
  config.stages = fields[2].value;
  config.order = static_cast<Order>(fields[3].value);
  config.output_panels = fields[4].value;
  config.dynamic = fields[5].value != 0;
  config.q_registers = fields[6].value != 0;
  config.always_rescale = fields[7].value != 0;
  config.polynomial_share = fields[8].value;
  config.overlap = fields[9].value != 0;
  config.pair = fields[10].value != 0;
  set_registers(config);
  return config;
}

std::string unsupported_forward(const core::Problem& problem) {
  const AttentionProblem& spec = problem.spec;
  if (spec.pass != Pass::kForward) return "backward";
  if (problem.dtype != DType::kBFloat16 && problem.dtype != DType::kFloat16) {
    return std::string(to_string(problem.dtype)) + " tensors, only bfloat16 and float16";
  }
  for (const int64_t dim : {problem.dim_qk, problem.dim_v}) {
    if (dim % 8 != 0 || dim > 256) {
      return "head dim " + std::to_string(dim) + ", only multiples of 8 up to 256";
    }
  }
  if (spec.options.dropout_p != 0) return "dropout";
  if (problem.rows_q > kMaxRows || problem.rows_k > kMaxRows) {
    return "sequences longer than " + std::to_string(kMaxRows);
  }
  const int64_t most = std::max<int64_t>(problem.max_rows_q(), 1);
  const int64_t tiles = ceil_div(problem.packed_q ? problem.rows_q : most, kRowsPerWarpgroup) + 1;
  int64_t all = problem.batch + 1;
  if (__builtin_mul_overflow(problem.heads_q,
                             problem.packed_q ? problem.batch + tiles : all * tiles, &all) ||
      all > kMaxRows) {
    return "more than " + std::to_string(kMaxRows) + " tiles of queries";
  }
  return {};
}

unsigned forward_shared_bytes(const ForwardConfig& c) {
  const int q = panel_bytes(kRowsPerWarpgroup, c.dim_qk);
  const int o = panel_bytes(kRowsPerWarpgroup, c.output_panels * kPanelCols);
  const int query = c.warpgroups * (q + o);
  const int k = c.stages * panel_bytes(c.tile_keys, c.dim_qk);
  const int v = c.stages * panel_bytes(c.tile_keys, c.dim_v);
  const int barriers = 8 * (2 * c.warpgroups + 5 * c.stages);
  const int queue = 2 * (8 + 8 + 44), mailbox = 2 * (8 + 8 + 4);
  return static_cast<unsigned>(round_up(query + k + v + barriers + queue + mailbox, 1024));
}

std::string to_string(const ForwardConfig& c) {
  constexpr const char* kBias[] = {"", "-bias32", "-bias64", "-biasbf16", "-biasfp16"};
  std::string text = c.dtype == DType::kBFloat16 ? "bf16/d" : "fp16/d";
  text += std::to_string(c.dim_qk);
  if (c.dim_v != c.dim_qk) text.append("x").append(std::to_string(c.dim_v));
  if (c.left) {
    text += c.right ? "/window" : "/left";
  } else {
    text += c.right ? "/causal" : "/full";
  }
  if (c.varlen) text += "-varlen";
  if (c.packed) text += "-packed";
  if (c.score.softcap) text += "-softcap";
  if (c.score.alibi) text += "-alibi";
  if (c.score.mask) text += "-mask";
  text += kBias[static_cast<int>(c.score.bias)];
  text.append("/").append(std::to_string(c.ctas() * c.warpgroups * kRowsPerWarpgroup));
  text.append("x").append(std::to_string(c.tile_keys));
  return c.pair ? text + "-pair" : text;
}

KernelConfig forward_kernel(const ForwardConfig& c) {
  KernelConfig kernel;
  kernel.name = "sm_90a/forward/" + to_string(c);
  kernel.entry = "fa4_forward";
  kernel.shared_bytes = forward_shared_bytes(c);
  kernel.registers = registers_at_launch(c);
  kernel.budget_seconds = c.score.any() ? kModifierBudget : kBudget;
  kernel.program.target = "sm_90a";
  kernel.program.source =
      "#define FA4_WGMMA_COLUMNS(n) (n == " + std::to_string(c.tile_keys) +
      " || n == " + std::to_string(c.dim_v) +
      ")\n"
      "#include \"sm90/forward.cuh\"\n"
      "using namespace fa4;\n"
      "constexpr sm90::ForwardConfig kConfig = {\n" +
      field("dim_qk", c.dim_qk) + field("dim_v", c.dim_v) + field("tile_keys", c.tile_keys) +
      field("warpgroups", c.warpgroups) + field("stages", c.stages) +
      field("consumer_registers", c.consumer_registers) +
      field("producer_registers", c.producer_registers) + field("left", c.left) +
      field("right", c.right) + field("varlen", c.varlen) + field("packed", c.packed) +
      field("output_panels", c.output_panels) + field("order", static_cast<int>(c.order)) +
      field("overlap", c.overlap) + field("pair", c.pair) + field("dynamic", c.dynamic) +
      field("q_registers", c.q_registers) + field("always_rescale", c.always_rescale) +
      field("polynomial_share", c.polynomial_share) + "    .score = {\n" +
      field("softcap", c.score.softcap) + field("alibi", c.score.alibi) +
      field("mask", c.score.mask) + field("bias", static_cast<int>(c.score.bias)) +
      "    }};\n"
      "static_assert(sizeof(sm90::Shared<kConfig>) == " +
      std::to_string(kernel.shared_bytes) +
      ");\n"
      "static_assert(sizeof(sm90::ForwardParams) == " +
      std::to_string(kForwardParamsBytes) +
      ");\n"
      "extern \"C\" __global__ void __launch_bounds__(sm90::Shapes<kConfig>::kThreads, 1)\n"
      "    fa4_forward(const __grid_constant__ sm90::ForwardParams params) {\n"
      "  sm90::forward<" +
      (c.dtype == DType::kBFloat16 ? "Bf16" : "Fp16") +
      ", kConfig>(params);\n"
      "}\n";
  return kernel;
}

KernelConfig lengths_kernel() {
  KernelConfig kernel;
  kernel.name = "sm_90a/lengths";
  kernel.entry = "fa4_list_tiles";
  kernel.registers = 32;
  kernel.budget_seconds = kBudget;
  kernel.program.target = "sm_90a";
  kernel.program.source =
      "#include \"attention/lengths.cuh\"\n"
      "using namespace fa4;\n"
      "static_assert(sizeof(LengthsParams) == " +
      std::to_string(kLengthsParamsBytes) +
      ");\n"
      "extern \"C\" __global__ void __launch_bounds__(kLengthsThreads)\n"
      "    fa4_list_tiles(const __grid_constant__ LengthsParams params) {\n"
      "  list_tiles(params);\n"
      "}\n";
  return kernel;
}

}  // namespace fa4::gpu::sm90
