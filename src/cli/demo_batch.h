// SPDX-License-Identifier: BSD-3-Clause
// One layer of the demo's input as tensors: in a dtype and a layout.
#pragma once

#include <fa4/attention.h>

#include <array>
#include <cstdint>
#include <vector>

#include "cli/array.h"
#include "cli/demo_fixture.h"

namespace fa4::cli {

/// How the batch is handed to fa4.
enum class DemoLayout : int {
  kPadded = 0,  ///< [b, s, h, d] and lengths (seqused); padding holds NaN.
  kPacked = 1,  ///< [total, h, d] and cu_seqlens.
  kMasked = 2,  ///< [b, s, h, d] and a boolean mask [b, 1, 1, s]; hidden keys hold NaN.
};
inline constexpr std::array kDemoLayouts = {DemoLayout::kPadded, DemoLayout::kPacked,
                                            DemoLayout::kMasked};
const char* to_string(DemoLayout layout);

/// One layer's tensors in one dtype and one layout.
class DemoBatch {
 public:
  /// What rows of padding hold: NaN, which shows that nothing depends on them, or 0, as good as
  /// what a model has there, for timing. Queries that a mask does not hide always get 0.
  enum class Padding { kNaN, kZero };

  DemoBatch(const DemoFixture& fixture, int64_t layer, DType dtype, DemoLayout layout,
            const std::vector<float>& dout, Padding padding = Padding::kNaN);

  AttentionTensors tensors;
  AttentionGradients gradients;

  DemoLayout layout() const { return layout_; }
  /// Rows that count, packed: [total, heads, head_dim].
  std::vector<double> rows(const Tensor& tensor) const;
  /// The LSE of rows that count: [total, heads].
  std::vector<double> lse() const;
  bool outputs_clean() const;
  bool gradients_clean() const;

 private:
  Array make(double padding, const std::vector<float>& packed) const;
  Array make_output() const;
  void add_lengths();
  bool is_zero_in_padding(const Tensor& tensor) const;

  const DemoFixture& fixture_;
  DType dtype_;
  DemoLayout layout_;
  std::vector<int64_t> place_;  // The place of packed row t in the flattened rows of the layout.
  std::vector<bool> used_;      // Whether a place holds a row that counts.
  Array q_, k_, v_, out_, lse_, dout_, dq_, dk_, dv_;
  Array seqused_, cu_seqlens_, mask_;
};

/// [heads, total] -> [total, heads]
std::vector<double> heads_last(const std::vector<double>& lse, int64_t heads, int64_t total);

}  // namespace fa4::cli
