// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/probes/kernel_cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>

#include "core/problem.h"
#include "emulator/numeric.h"
#include "emulator/probes/draw.h"
#include "support/gpu_case.h"

namespace fa4::emulator::probes {
namespace {

using gpu::sm90::ForwardConfig;
using gpu::sm90::Scalar;
using test::Case;
using test::HostTensor;
using test::Index;

constexpr int64_t kWindowLeft = 100;
constexpr double kHidden = -4096;  ///< A score whose weight is 0.
constexpr double kAlone = 4096;    ///< A slope that leaves a row its own key only.
constexpr int64_t kKeys[] = {300, 840, 2100, 6200};

/// Batch by batch, how many rows and keys are used.
struct Lengths {
  std::vector<int64_t> q, k;
};

Lengths lengths_of(const Case& c) {
  Lengths lengths;
  const std::vector<double> q = c.seqused_q.values(), k = c.seqused_k.values();
  for (int64_t b = 0; b < c.batch(); ++b) {
    lengths.q.push_back(q.empty() ? c.q.dims()[1] : static_cast<int64_t>(q[b]));
    lengths.k.push_back(k.empty() ? c.k.dims()[1] : static_cast<int64_t>(k[b]));
  }
  return lengths;
}

DType bias_type(Scalar scalar) {
  switch (scalar) {
    case Scalar::kFloat32:
      return DType::kFloat32;
    case Scalar::kFloat64:
      return DType::kFloat64;
    case Scalar::kBFloat16:
      return DType::kBFloat16;
    default:
      return DType::kFloat16;
  }
}

/// The tensors, still to be filled, and the options. `large`: several tiles of queries.
Case empty_case(const ForwardConfig& config, int64_t keys, bool large) {
  Case c;
  const int64_t batch = config.varlen ? 2 : 1;
  const int64_t heads_q = config.packed ? 4 : 2;
  const int64_t heads_k = config.packed ? 1 : config.score.hides() ? 1 : 2;
  const int64_t tile = config.warpgroups * (config.packed ? 16 : 64);
  // A pair's rows are more than one CTA's: of two, with half a tile left; of one and a part.
  const int64_t rows = config.pair ? (large ? 2 * tile + tile / 3 : tile + tile / 4)
                       : large     ? tile + 51
                                   : std::min<int64_t>(tile, 100) - 9;
  c.q = HostTensor(config.dtype, {batch, rows, heads_q, config.dim_qk});
  c.k = HostTensor(config.dtype, {batch, keys, heads_k, config.dim_qk});
  c.v = HostTensor(config.dtype, {batch, keys, heads_k, config.dim_v});
  if (config.right) c.options.causal = Causal::kBottomRight;
  if (config.left) c.options.window.left = kWindowLeft;
  if (config.varlen) {
    const auto length = [](int64_t n) { return static_cast<double>(n); };
    c.seqused_q = HostTensor::of(DType::kInt32, {2}, {length(rows), length(rows * 2 / 3)});
    c.seqused_k = HostTensor::of(DType::kInt32, {2}, {length(keys - 37), length(keys)});
  }
  if (config.score.alibi) c.alibi_slopes = HostTensor(DType::kFloat32, {heads_q});
  if (config.score.mask) c.mask = HostTensor(DType::kBool, {batch, 1, rows, keys});
  if (config.score.bias != Scalar::kAbsent) {
    c.bias = HostTensor(bias_type(config.score.bias), {batch, 1, rows, keys});
  }
  return c;
}

/// The fewest keys for which the library chooses that kernel.
Case case_for(const KernelCase& kernel, bool large) {
  for (const int64_t keys : kKeys) {
    Case c = empty_case(kernel.config, keys, large);
    if (kernel.config.score.softcap) c.options.softcap = kernel.exact ? 1024 : 30;
    if (kernel.exact) c.options.scale = 1;
    const auto problem = core::validate(AttentionProblem::forward(c.tensors(), c.options));
    if (!problem.ok()) throw std::runtime_error(problem.status().message());
    if (gpu::sm90::choose_forward(*problem) == kernel.config) return c;
  }
  throw std::runtime_error("no problem chooses " + kernel.name);
}

struct Range {
  int64_t low = 0, high = 0;
  bool empty() const { return low >= high; }
};

/// Keys that the band and the lengths show to a row.
Range visible(const Case& c, const Lengths& lengths, int64_t b, int64_t i) {
  if (i >= lengths.q[b]) return {};
  const int64_t diagonal = i + lengths.k[b] - lengths.q[b];
  Range r{0, lengths.k[b]};
  if (c.options.causal != Causal::kNone) r.high = std::min(r.high, diagonal + 1);
  if (c.options.window.left) r.low = std::max<int64_t>(0, diagonal - *c.options.window.left);
  return r;
}

/// The largest block of 2^n keys, at a multiple of 2^n, within a range.
Range block_in(const Range& range) {
  for (int64_t size = int64_t{1} << 12; size > 0; size /= 2) {
    const int64_t low = (range.low + size - 1) / size * size;
    if (low + size <= range.high) return {low, low + size};
  }
  return {};
}

/// Blocks that rows of q choose by their number: coordinate n of a key is 0 within block n, else
/// kHidden.
class Blocks {
 public:
  Blocks(const Case& c, int64_t b, int64_t most) {
    const Lengths lengths = lengths_of(c);
    for (int64_t i = 0; i < c.q.dims()[1]; ++i) {
      const Range seen = visible(c, lengths, b, i), block = block_in(seen);
      of_row_.push_back(seen.empty() ? -1 : number_of(seen, block, most));
    }
  }
  /// -1: the row sees nothing.
  int64_t of_row(int64_t i) const { return of_row_[i]; }
  /// `n` may be beyond the blocks, where no row looks.
  bool holds(int64_t n, int64_t key) const {
    return n < static_cast<int64_t>(blocks_.size()) && key >= blocks_[n].low &&
           key < blocks_[n].high;
  }

 private:
  int64_t number_of(const Range& seen, const Range& block, int64_t most) {
    int64_t inside = -1;
    for (size_t n = 0; n < blocks_.size(); ++n) {
      const Range& known = blocks_[n];
      if (known.low == block.low && known.high == block.high) return static_cast<int64_t>(n);
      if (known.low >= seen.low && known.high <= seen.high) inside = static_cast<int64_t>(n);
    }
    if (static_cast<int64_t>(blocks_.size()) < most) {
      blocks_.push_back(block);
      return static_cast<int64_t>(blocks_.size()) - 1;
    }
    if (inside < 0) throw std::runtime_error("a row without a block of keys");
    return inside;
  }

  std::vector<Range> blocks_;
  std::vector<int64_t> of_row_;
};

/// A whole number in [-most, most] that depends on the place only.
double whole(uint64_t salt, const Index& at, uint32_t most) {
  uint64_t seed = salt;
  for (size_t i = 0; i < 4; ++i) seed = seed * 0x100000001b3 + static_cast<uint64_t>(at[i]) + 1;
  Random random(seed);
  return static_cast<double>(random.below(2 * most + 1)) - most;
}

/// q and k: the first half of their coordinates chooses blocks of keys, the second half is pairs
/// (x, -x) and (y, y) that cancel.
void fill_exact(const KernelCase& kernel, Case& c) {
  const int64_t half = c.q.dims()[3] / 2;
  std::vector<Blocks> blocks;
  for (int64_t b = 0; b < c.batch(); ++b) blocks.emplace_back(c, b, half);
  const bool by_tensor = kernel.config.score.hides();
  const bool alibi = kernel.config.score.alibi && !by_tensor;
  const auto alone = [&](int64_t head) { return alibi && head % 2 == 1; };
  c.q.fill_with([&](const Index& at) {
    if (at[3] >= half) {
      const double x = whole(1, {at[0], at[1], at[2], at[3] / 2}, 2);
      return at[3] % 2 == 0 ? x : -x;
    }
    return !by_tensor && !alone(at[2]) && blocks[at[0]].of_row(at[1]) == at[3] ? 1.0 : 0.0;
  });
  c.k.fill_with([&](const Index& at) {
    if (at[3] >= half) return whole(2, {at[0], at[1], at[2], at[3] / 2}, 2);
    return blocks[at[0]].holds(at[3], at[1]) ? 0.0 : kHidden;
  });
  c.v.fill_with([](const Index& at) { return whole(3, at, 8); });
  if (c.alibi_slopes.present()) {
    c.alibi_slopes.fill_with([&](const Index& at) { return alone(at[0]) ? kAlone : 0.0; });
  }
}

/// [batch][row][key]: of the keys that a row sees, as many as the largest power of two.
std::vector<char> chosen_keys(const Case& c) {
  const Lengths lengths = lengths_of(c);
  const int64_t rows = c.q.dims()[1], keys = c.k.dims()[1];
  std::vector<char> chosen(static_cast<size_t>(c.batch() * rows * keys), 0);
  for (int64_t b = 0; b < c.batch(); ++b) {
    for (int64_t i = 0; i < rows; ++i) {
      const Range seen = visible(c, lengths, b, i);
      if (seen.empty()) continue;
      const auto count =
          static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(seen.high - seen.low)));
      Random random(static_cast<uint64_t>(b * rows + i));
      int64_t left = count;
      for (int64_t j = seen.low; j < seen.high; ++j) {
        if (random.below(static_cast<uint32_t>(seen.high - j)) >= static_cast<uint32_t>(left)) {
          continue;
        }
        chosen[static_cast<size_t>((b * rows + i) * keys + j)] = 1;
        --left;
      }
    }
  }
  return chosen;
}

/// Bias and mask let the chosen keys alone count.
void choose_by_tensor(Case& c) {
  const int64_t rows = c.q.dims()[1], keys = c.k.dims()[1];
  const std::vector<char> chosen = chosen_keys(c);
  const auto is_chosen = [&](const Index& at) {
    return chosen[static_cast<size_t>((at[0] * rows + at[2]) * keys + at[3])] != 0;
  };
  const bool both = c.mask.present() && c.bias.present();
  if (c.bias.present()) {
    c.bias.fill_with([&](const Index& at) { return is_chosen(at) ? 0.0 : kHidden; });
  }
  if (c.mask.present()) {
    c.mask.fill_with([&](const Index& at) {
      return is_chosen(at) || (both && whole(4, at, 1) > 0) ? 1.0 : 0.0;
    });
  }
}

void fill_real(Case& c, uint64_t seed) {
  test::Random random(seed);
  for (HostTensor* x : {&c.q, &c.k, &c.v}) x->fill_normal(random);
  if (c.bias.present()) c.bias.fill_normal(random);
  if (c.mask.present()) {
    c.mask.fill_with([](const Index& at) { return whole(5, at, 2) > -1 ? 1.0 : 0.0; });
  }
  if (c.alibi_slopes.present()) {
    c.alibi_slopes.fill_with(
        [](const Index& at) { return std::ldexp(1.0, -3 - static_cast<int>(at[0])); });
  }
}

double value_of(DType dtype, uint32_t bits) {
  return dtype == DType::kBFloat16 ? from_bfloat16(bits) : from_float16(bits);
}

/// The distance between neighbouring numbers of the type there.
double unit_at(DType dtype, double x) {
  const int fraction = dtype == DType::kBFloat16 ? 7 : 10;
  const int lowest = dtype == DType::kBFloat16 ? -126 : -14;
  return std::ldexp(1.0, std::max(x == 0 ? lowest : std::ilogb(x), lowest) - fraction);
}

}  // namespace

std::vector<KernelCase> kernel_cases() {
  std::vector<KernelCase> cases;
  for (const ForwardConfig& config : gpu::sm90::all_forward_configs()) {
    const std::string name = gpu::sm90::to_string(config);
    cases.push_back({config, true, name + "/exact"});
    cases.push_back({config, false, name + "/real"});
  }
  return cases;
}

test::Case make_case(const KernelCase& kernel) {
  // Which half has several tiles of queries is drawn from the name.
  uint32_t sum = 0;
  for (const char x : gpu::sm90::to_string(kernel.config)) sum = sum * 31 + static_cast<uint8_t>(x);
  Case c = case_for(kernel, sum / 7 % 2 == 0);
  c.name = kernel.name;
  if (kernel.exact) {
    fill_exact(kernel, c);
    choose_by_tensor(c);
  } else {
    fill_real(c, sum);
  }
  return c;
}

Result<Words> run_case(const KernelCase& kernel, Device device) {
  Case c = make_case(kernel);
  c.device = device;
  const Status status = c.forward();
  if (!status.ok()) return status;
  Words words(out_words(c) + static_cast<size_t>(c.lse.size()));
  const std::vector<std::byte> out = c.out.bytes(), lse = c.lse.bytes();
  std::memcpy(words.data(), out.data(), out.size());
  std::memcpy(words.data() + out_words(c), lse.data(), lse.size());
  return words;
}

size_t out_words(const test::Case& c) {
  return static_cast<size_t>(c.q.size() / c.q.dims()[3] * c.v.dims()[3]) / 2;
}

KernelDifference compare_case(const test::Case& c, const Words& mine, const Words& theirs) {
  KernelDifference d;
  const DType dtype = c.q.dtype();
  const size_t words = out_words(c), row = static_cast<size_t>(c.v.dims()[3]) / 2;
  for (size_t begin = 0; begin < words; begin += row) {
    double squares = 0;
    for (size_t i = begin; i < begin + row; ++i) {
      for (const uint32_t shift : {0u, 16u}) {
        const double x = value_of(dtype, mine[i] >> shift & 0xffff);
        squares += x * x;
      }
    }
    const double mean = std::sqrt(squares / (2.0 * static_cast<double>(row)));
    for (size_t i = begin; i < begin + row; ++i) {
      for (const uint32_t shift : {0u, 16u}) {
        const double a = value_of(dtype, mine[i] >> shift & 0xffff);
        const double b = value_of(dtype, theirs[i] >> shift & 0xffff);
        const double off = std::isnan(a) || std::isnan(b) ? INFINITY : std::fabs(a - b);
        const double size = std::max(std::fabs(a), std::fabs(b));
        d.ulps = std::max(d.ulps, off / unit_at(dtype, size));
        d.row_ulps = std::max(d.row_ulps, off / unit_at(dtype, std::max(size, mean)));
      }
    }
  }
  for (size_t i = words; i < mine.size(); ++i) {
    if (mine[i] == theirs[i]) continue;
    d.lse = std::max(d.lse, std::fabs(static_cast<double>(std::bit_cast<float>(mine[i])) -
                                      std::bit_cast<float>(theirs[i])));
  }
  return d;
}

}  // namespace fa4::emulator::probes
