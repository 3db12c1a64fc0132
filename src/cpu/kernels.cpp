// SPDX-License-Identifier: BSD-3-Clause
// The table of micro-kernels, once per target, and the choice among them.
#include "cpu/kernels.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
}
}  // namespace fa4::cpu
HWY_AFTER_NAMESPACE();

#include "cpu/backward-inl.h"
#include "cpu/convert-inl.h"
#include "cpu/decode-inl.h"
#include "cpu/interleaved-inl.h"
#include "cpu/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::cpu {
namespace HWY_NAMESPACE {

template <class T>
void multiply(const Product<T>& x);  // multiply.cpp

constexpr const char* kTargetName = &HWY_STR(HWY_NAMESPACE)[2];  // "N_AVX2" without "N_"

template <class T>
const Kernels<T>* table() {
  static constexpr Kernels<T> kTable = {
      kTargetName,    2 * static_cast<int64_t>(hn::MaxLanes(hn::CappedTag<T, 16>())),
      FA4_ROW_STEP,   load_rows<T>,
      store_rows<T>,  pack<T>,
      multiply<T>,    finish_scores<T>,
      softmax<T>,     gradients<T>,
      interleaves<T>, arrange<T>,
      dot_rows<T>,    add_rows<T>,
      all_finite<T>,
  };
  return &kTable;
}

Target target() { return {kTargetName, table<float>(), table<double>()}; }

}  // namespace HWY_NAMESPACE
}  // namespace fa4::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fa4::cpu {
namespace {

/// Whether two words of ASCII are the same but for upper and lower case.
bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

std::vector<Target> find_targets() {
  std::vector<Target> found;
  const int64_t able = hwy::SupportedTargets();
  const auto consider = [&](int64_t bit, Target (*make)()) {
    if ((able & bit) != 0) found.push_back(make());
  };
#if HWY_TARGETS & HWY_AVX3
  consider(HWY_AVX3, N_AVX3::target);
#endif
#if HWY_TARGETS & HWY_AVX2
  consider(HWY_AVX2, N_AVX2::target);
#endif
#if HWY_TARGETS & HWY_SSE4
  consider(HWY_SSE4, N_SSE4::target);
#endif
#if HWY_TARGETS & HWY_NEON
  consider(HWY_NEON, N_NEON::target);
#endif
  // The compiler's own baseline runs wherever the library does.
  if (found.empty() || (HWY_STATIC_TARGET & (HWY_AVX3 | HWY_AVX2 | HWY_SSE4 | HWY_NEON)) == 0) {
    found.push_back(HWY_NAMESPACE::target());
  }
  return found;
}

}  // namespace

std::span<const Target> available_targets() {
  static const std::vector<Target> targets = find_targets();
  return targets;
}

Result<const Target*> choose_target() {
  const std::span<const Target> targets = available_targets();
  const char* wanted = std::getenv("FA4_CPU_TARGET");
  if (wanted == nullptr || *wanted == '\0') return &targets.front();
  std::string allowed;
  for (const Target& target : targets) {
    if (same_word(target.name, wanted)) return &target;
    allowed += (allowed.empty() ? "" : ", ") + std::string(target.name);
  }
  return invalid_argument("FA4_CPU_TARGET: is " + std::string(wanted) +
                          "; allowed here: " + allowed);
}

}  // namespace fa4::cpu
#endif  // HWY_ONCE
