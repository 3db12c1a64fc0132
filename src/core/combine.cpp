// SPDX-License-Identifier: BSD-3-Clause
// combine(): partial results over parts of the keys as one result.
#include <fa4/attention.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/message.h"
#include "core/run_checker.h"

namespace fa4 {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

bool is_float(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kBFloat16 ||
         dtype == DType::kFloat16;
}

Status check_shapes(const Tensor& outs, const Tensor& lses, const Tensor& out) {
  if (outs.rank != 3) {
    return invalid_argument("outs: is " + core::format_spec(spec_of(outs)) +
                            "; allowed: rank 3, [parts, rows, d]");
  }
  for (int i = 0; i < 3; ++i) {
    if (outs.dims[i] < 0) {
      return invalid_argument("outs: is " + core::format_spec(spec_of(outs)) +
                              "; allowed: dims of 0 or more");
    }
  }
  if (!lses.present()) return invalid_argument("lses: absent; allowed: rank 2, [parts, rows]");
  if (lses.dtype != DType::kFloat32 && lses.dtype != DType::kFloat64) {
    return invalid_argument(std::string("lses: is ") + to_string(lses.dtype) +
                            "; allowed: float32, float64");
  }
  if (out.present() && !is_float(out.dtype)) {
    return invalid_argument(std::string("out: is ") + to_string(out.dtype) +
                            "; allowed: float32, float64, bfloat16, float16");
  }
  return {};
}

Status check(const Tensor& outs, const Tensor& lses, const Tensor& out, const Tensor& lse) {
  if (Status status = check_shapes(outs, lses, out); !status.ok()) return status;
  const auto [parts, rows, d, unused] = outs.dims;
  if (outs.device != Device::cpu()) {
    return unsupported("outs: is on " + to_string(outs.device) + "; supported: cpu");
  }
  core::RunChecker checker(Device::cpu());
  checker.input("outs", outs, {lses.dtype, 3, {parts, rows, d}});
  checker.input("lses", lses, {lses.dtype, 2, {parts, rows}});
  checker.output("out", out, {out.dtype, 2, {rows, d}});
  if (lse.present()) checker.output("lse", lse, {lses.dtype, 1, {rows}});
  return checker.status();
}

double load(const Tensor& t, int64_t offset) {
  return t.dtype == DType::kFloat32 ? static_cast<const float*>(t.data)[offset]
                                    : static_cast<const double*>(t.data)[offset];
}

void store(const Tensor& t, int64_t offset, double x) {
  switch (t.dtype) {
    case DType::kFloat64:
      static_cast<double*>(t.data)[offset] = x;
      break;
    case DType::kBFloat16:
      static_cast<BFloat16*>(t.data)[offset] = to_bfloat16(static_cast<float>(x));
      break;
    case DType::kFloat16:
      static_cast<Float16*>(t.data)[offset] = to_float16(static_cast<float>(x));
      break;
    default:
      static_cast<float*>(t.data)[offset] = static_cast<float>(x);
  }
}

/// log(sum_p exp(lses[p, row])).
double combined_lse(const Tensor& lses, int64_t row) {
  const auto at = [&](int64_t part) {
    return load(lses, part * lses.strides[0] + row * lses.strides[1]);
  };
  double largest = kMinusInfinity;
  for (int64_t part = 0; part < lses.dims[0]; ++part) {
    if (std::isnan(at(part))) return at(part);
    largest = std::max(largest, at(part));
  }
  if (largest == kMinusInfinity) return largest;
  double sum = 0;
  for (int64_t part = 0; part < lses.dims[0]; ++part) sum += std::exp(at(part) - largest);
  return largest + std::log(sum);
}

/// Columns that are summed at a time: their sums stay on the stack, so that nothing is allocated.
constexpr int64_t kColumns = 128;

void combine_columns(const Tensor& outs, const Tensor& lses, const Tensor& out, int64_t row,
                     double lse, int64_t begin, int64_t end) {
  std::array<double, kColumns> sums{};
  for (int64_t part = 0; part < outs.dims[0]; ++part) {
    const double part_lse = load(lses, part * lses.strides[0] + row * lses.strides[1]);
    if (part_lse == kMinusInfinity) continue;  // its out may be anything, NaN too
    const double weight = std::exp(part_lse - lse);
    const int64_t first = part * outs.strides[0] + row * outs.strides[1];
    for (int64_t c = begin; c < end; ++c) {
      sums[c - begin] += weight * load(outs, first + c * outs.strides[2]);
    }
  }
  for (int64_t c = begin; c < end; ++c) {
    store(out, row * out.strides[0] + c * out.strides[1], sums[c - begin]);
  }
}

}  // namespace

Status combine(const Tensor& outs, const Tensor& lses, const Tensor& out, const Tensor& lse) {
  if (Status status = check(outs, lses, out, lse); !status.ok()) return status;
  for (int64_t row = 0; row < outs.dims[1]; ++row) {
    const double row_lse = combined_lse(lses, row);
    for (int64_t begin = 0; begin < outs.dims[2]; begin += kColumns) {
      combine_columns(outs, lses, out, row, row_lse, begin,
                      std::min(begin + kColumns, outs.dims[2]));
    }
    if (lse.present()) store(lse, row * lse.strides[0], row_lse);
  }
  return {};
}

}  // namespace fa4
