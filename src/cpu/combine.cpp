// SPDX-License-Identifier: BSD-3-Clause
// fa4::combine: merges partial results of attention over parts of the keys.
#include <fa4/attention.h>
#include <fa4/plan.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "core/message.h"
#include "core/run_checker.h"
#include "cpu/kernels.h"

namespace fa4 {
namespace {

using cpu::Kernels;
using cpu::Matrix;
using std::string;

constexpr int64_t kColumns = 256;  // that are merged at a time

bool is_float(DType t) { return t == DType::kFloat32 || t == DType::kFloat64; }
bool is_any_float(DType t) { return is_float(t) || t == DType::kBFloat16 || t == DType::kFloat16; }

Status check_dims_are_sizes(const char* name, const Tensor& t) {
  for (int i = 0; i < t.rank; ++i) {
    if (t.dims[i] >= 0) continue;
    return invalid_argument(string(name) + ": dim " + std::to_string(i) + " is " +
                            std::to_string(t.dims[i]) + "; allowed: 0 or more");
  }
  return {};
}

/// Data, strides and device, as in an attention call.
Status check_memory(const Tensor& outs, const Tensor& lses, const Tensor& out, const Tensor& lse) {
  core::RunChecker checker(Device::cpu());
  checker.input("outs", outs, spec_of(outs));
  checker.input("lses", lses, spec_of(lses));
  checker.output("out", out, spec_of(out));
  checker.output("lse", lse, spec_of(lse));
  return checker.status();
}

Status check_dims(const char* name, const Tensor& t, std::initializer_list<int64_t> dims,
                  const char* what) {
  TensorSpec wanted{t.dtype, static_cast<int>(dims.size()), {}};
  std::copy(dims.begin(), dims.end(), wanted.dims.begin());
  const TensorSpec given = spec_of(t);
  if (given.rank == wanted.rank && std::equal(dims.begin(), dims.end(), given.dims.begin())) {
    return {};
  }
  return invalid_argument(string(name) + ": is " + core::format_dims(given) + "; allowed: " + what +
                          " = " + core::format_dims(wanted));
}

Status check(const Tensor& outs, const Tensor& lses, const Tensor& out, const Tensor& lse) {
  if (outs.rank != 3) {
    return invalid_argument("outs: rank is " + std::to_string(outs.rank) +
                            "; allowed: 3 ([parts, rows, d])");
  }
  if (!is_float(outs.dtype)) {
    return invalid_argument(string("outs: dtype is ") + to_string(outs.dtype) +
                            "; allowed: float32, float64");
  }
  const int64_t parts = outs.dims[0], rows = outs.dims[1], columns = outs.dims[2];
  Status status = check_dims("lses", lses, {parts, rows}, "[parts, rows]");
  if (status.ok()) status = check_dims("out", out, {rows, columns}, "[rows, d]");
  if (status.ok() && lse.present()) status = check_dims("lse", lse, {rows}, "[rows]");
  if (!status.ok()) return status;
  if (lses.dtype != outs.dtype || (lse.present() && lse.dtype != outs.dtype)) {
    const bool first = lses.dtype != outs.dtype;
    return invalid_argument(string(first ? "lses" : "lse") + ": dtype is " +
                            to_string(first ? lses.dtype : lse.dtype) +
                            "; allowed: " + to_string(outs.dtype) + ", that of outs");
  }
  if (!is_any_float(out.dtype)) {
    return invalid_argument(string("out: dtype is ") + to_string(out.dtype) +
                            "; allowed: float32, float64, bfloat16, float16");
  }
  // The others have the dims of outs.
  status = check_dims_are_sizes("outs", outs);
  return status.ok() ? check_memory(outs, lses, out, lse) : status;
}

/// One row: the parts' log-sum-exps, and their outputs, are matrices with a row for each part.
template <class T>
class Row {
 public:
  Row(const Kernels<T>& kernels, int64_t parts, Matrix lses)
      : kernels_(kernels), parts_(parts), lses_(lses) {
    for (int64_t p = 0; p < parts_; ++p) max_ = std::max(max_, lse_of(p));
    for (int64_t p = 0; p < parts_; ++p) {
      if (contributes(p)) sum_ += std::exp(lse_of(p) - max_);
    }
  }

  double lse() const { return sum_ == 0 ? -kInfinity : max_ + std::log(sum_); }

  void merge(Matrix outs, int64_t columns, Matrix out) const {
    std::array<T, kColumns> part{}, total{};
    for (int64_t c = 0; c < columns; c += kColumns) {
      const int64_t width = std::min(kColumns, columns - c);
      total.fill(0);
      for (int64_t p = 0; p < parts_; ++p) {
        if (!contributes(p)) continue;  // whatever its out holds
        const auto weight = static_cast<T>(std::exp(lse_of(p) - max_) / sum_);
        kernels_.load_rows(outs.at(p, c), 1, width, weight, part.data(), 0);
        for (int64_t i = 0; i < width; ++i) total[i] += part[i];
      }
      kernels_.store_rows(total.data(), 0, 1, width, T{1}, out.at(0, c));
    }
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  double lse_of(int64_t p) const {
    return static_cast<double>(*static_cast<const T*>(lses_.at(p, 0).data));
  }
  bool contributes(int64_t p) const { return lse_of(p) != -kInfinity; }

  const Kernels<T>& kernels_;
  int64_t parts_;
  Matrix lses_;
  double max_ = -kInfinity;
  double sum_ = 0;
};

template <class T>
void run(const Kernels<T>& kernels, const Tensor& outs, const Tensor& lses, const Tensor& out,
         const Tensor& lse) {
  for (int64_t r = 0; r < outs.dims[1]; ++r) {
    const Matrix all_lses{lses.data, lses.dtype, lses.strides[0], lses.strides[1]};
    const Row<T> row(kernels, outs.dims[0], all_lses.at(0, r));
    auto* bytes = static_cast<char*>(outs.data) + r * outs.strides[1] * size_of(outs.dtype);
    row.merge({bytes, outs.dtype, outs.strides[0], outs.strides[2]}, outs.dims[2],
              Matrix{out.data, out.dtype, out.strides[0], out.strides[1]}.at(r, 0));
    if (lse.present()) {
      static_cast<T*>(lse.data)[r * lse.strides[0]] = static_cast<T>(row.lse());
    }
  }
}

}  // namespace

Status combine(const Tensor& outs, const Tensor& lses, const Tensor& out, const Tensor& lse) {
  const Status status = check(outs, lses, out, lse);
  if (!status.ok()) return status;
  const Result<const cpu::Target*> target = cpu::choose_target();
  if (!target.ok()) return target.status();
  if (outs.dtype == DType::kFloat64) {
    run((*target)->kernels<double>(), outs, lses, out, lse);
  } else {
    run((*target)->kernels<float>(), outs, lses, out, lse);
  }
  return {};
}

}  // namespace fa4
