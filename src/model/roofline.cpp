// SPDX-License-Identifier: BSD-3-Clause
#include "model/roofline.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace fa4::model {
namespace {

constexpr int64_t kOperandBytes = 2;      // bf16
constexpr int64_t kAccumulatorBytes = 4;  // fp32

constexpr std::array<Chip, 4> kChips = {{
    {"A100", "Ampere", 108, 1.41, 2048, 128, 16, {32, 256}, {32, 64}, false, false, false},
    {"H100", "Hopper", 132, 1.83, 4096, 128, 16, {64, 256}, {64, 256}, false, true, true},
    {"B200", "Blackwell", 148, 1.85, 8192, 128, 16, {128, 256}, {128, 256}, true, true, true},
    {"B300", "Blackwell Ultra", 148, 1.85, 8192, 128, 32, {128, 256}, {128, 256}, true, true, true},
}};

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Bytes that a product of A [rows, depth] and B [depth, cols] reads from shared memory. A is read
/// once for each instruction's worth of columns, B once for each one's worth of rows.
int64_t operand_reads(MmaShape mma, int64_t rows, int64_t cols, int64_t depth, bool a_in_shared) {
  const int64_t a = a_in_shared ? divide_up(cols, mma.cols) * rows * depth : 0;
  const int64_t b = divide_up(rows, mma.rows) * cols * depth;
  return (a + b) * kOperandBytes;
}

/// The same for one CTA of a pair, which has `rows` of the pair's 2 * rows and half of B.
int64_t pair_operand_reads(MmaShape mma, int64_t rows, int64_t cols, int64_t depth,
                           bool a_in_shared) {
  const int64_t a = a_in_shared ? divide_up(cols, mma.cols) * rows * depth : 0;
  const int64_t b = divide_up(rows, mma.rows) * cols * depth / 2;
  return (a + b) * kOperandBytes;
}

std::vector<Traffic> forward_traffic(const Chip& chip, const Tile& t) {
  const auto reads = t.cta_pair ? pair_operand_reads : operand_reads;
  return {
      {"S = Q K^T: reads Q, K", reads(chip.mma_forward, t.rows, t.cols, t.dim_qk, true)},
      {"O += P V: reads V", reads(chip.mma_forward, t.rows, t.dim_v, t.cols, false)},
  };
}

/// dQ = dS K by a pair: each CTA has half of the query rows and the keys of both, so that A is
/// rows / 2 x 2 * cols, and half of B, which is 2 * cols x dim_qk.
int64_t pair_dq_reads(MmaShape mma, const Tile& t) {
  const int64_t a = divide_up(t.dim_qk, mma.cols) * (t.rows / 2) * (2 * t.cols);
  const int64_t b = divide_up(t.rows, mma.rows) * (2 * t.cols) * t.dim_qk / 2;
  return (a + b) * kOperandBytes;
}

std::vector<Traffic> backward_traffic(const Chip& chip, const Tile& t) {
  const auto reads = t.cta_pair ? pair_operand_reads : operand_reads;
  const MmaShape mma = chip.mma_backward;
  const bool p_in_shared = !chip.operands_bypass_shared;
  const int64_t score_bytes = t.rows * t.cols * kOperandBytes;
  std::vector<Traffic> traffic = {
      {"S^T = K Q^T: reads K, Q", reads(mma, t.cols, t.rows, t.dim_qk, true)},
      {"dP^T = V dO^T: reads V, dO", reads(mma, t.cols, t.rows, t.dim_v, true)},
      {p_in_shared ? "dV += P^T dO: reads P, dO" : "dV += P^T dO: reads dO",
       reads(mma, t.cols, t.dim_v, t.rows, p_in_shared)},
      {p_in_shared ? "dK += dS^T Q: reads dS, Q" : "dK += dS^T Q: reads Q",
       reads(mma, t.cols, t.dim_qk, t.rows, p_in_shared)},
      {"dQ = dS K: reads dS, K",
       t.cta_pair ? pair_dq_reads(mma, t) : operand_reads(mma, t.rows, t.dim_qk, t.cols, true)},
  };
  if (p_in_shared) traffic.push_back({"P: written", score_bytes});
  traffic.push_back({"dS: written", score_bytes});
  if (t.cta_pair) {
    traffic.push_back({"dS exchange: half staged, sent, received", 3 * score_bytes / 2});
  }
  if (chip.dq_through_shared) {
    const int64_t dq_rows = t.cta_pair ? t.rows / 2 : t.rows;
    traffic.push_back(
        {"dQ (fp32): written, read to reduce", 2 * dq_rows * t.dim_qk * kAccumulatorBytes});
  }
  return traffic;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

std::span<const Chip> chips() { return kChips; }

const Chip* find_chip(const std::string& name) {
  for (const Chip& chip : kChips) {
    if (lower(name) == lower(chip.name)) return &chip;
  }
  return nullptr;
}

double Cycles::slowest() const { return std::max({mma, shared, exp}); }

std::string Cycles::bottleneck() const {
  std::string names;
  const auto add = [&](double unit, const char* name) {
    if (unit < slowest()) return;
    names += (names.empty() ? "" : " + ") + std::string(name);
  };
  add(mma, "MMA");
  add(shared, "shared memory");
  add(exp, "exponential");
  return names;
}

std::string problem_with(const Chip& chip, const Tile& t) {
  if (t.rows < 1 || t.cols < 1 || t.dim_qk < 1 || t.dim_v < 1) {
    return "tile: a size is below 1; allowed: 1 or more";
  }
  if (std::max({t.rows, t.cols, t.dim_qk, t.dim_v}) > 65536) {
    return "tile: a size is above 65536; allowed: up to 65536";
  }
  if (t.cta_pair && !chip.cta_pairs) {
    return std::string("CTA pair: ") + chip.name + " has no MMA of two CTAs; allowed: B200, B300";
  }
  if (t.cta_pair && t.rows % 2 != 0) return "CTA pair: the tile's rows are odd; allowed: even";
  return {};
}

int64_t flops(const Tile& t) {
  const int64_t products_qk = t.direction == Direction::kForward ? 1 : 3;  // S; S, dQ, dK
  const int64_t products_v = t.direction == Direction::kForward ? 1 : 2;   // O; dP, dV
  return 2 * t.rows * t.cols * (products_qk * t.dim_qk + products_v * t.dim_v);
}

Cycles cycles(const Chip& chip, const Tile& t) {
  Cycles result;
  result.traffic =
      t.direction == Direction::kForward ? forward_traffic(chip, t) : backward_traffic(chip, t);
  int64_t bytes = 0;
  for (const Traffic& traffic : result.traffic) bytes += traffic.bytes;
  result.mma = static_cast<double>(flops(t)) / static_cast<double>(chip.mma_flops);
  result.shared = static_cast<double>(bytes) / static_cast<double>(chip.shared_bytes);
  result.exp = static_cast<double>(t.rows * t.cols) / static_cast<double>(chip.exps);
  return result;
}

double attainable_tflops(const Chip& chip, const Tile& t) {
  const double flops_per_cycle = static_cast<double>(flops(t)) / cycles(chip, t).slowest();
  return flops_per_cycle * chip.multiprocessors * chip.clock_ghz * 1e-3;
}

}  // namespace fa4::model
