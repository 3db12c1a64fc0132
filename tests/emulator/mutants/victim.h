// SPDX-License-Identifier: BSD-3-Clause
// Kernels that faults are put into, each with a small problem that it solves rightly.
#pragma once

#include <fa4/status.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "emulator/emulator.h"

namespace fa4::emulator::mutants {

/// How a fault came to light.
enum class Notice : uint8_t {
  kNone,
  kRejected,  ///< The text was not loaded.
  kWrong,     ///< The result is not the oracle's.
  kDeadlock,
  kLoop,   ///< More instructions than a run can need.
  kFault,  ///< The machine refused something: an address, a barrier, tensor memory.
  kCheck,  ///< Only the judge's checks report it.
};
const char* name_of(Notice notice);

struct Outcome {
  Notice notice = Notice::kNone;
  std::string message;
};

/// One text exchanged for another, in the victim's source.
struct Patch {
  std::string file;  ///< Below device/; of the victims that are one text: "".
  std::string find;  ///< Stands there exactly once.
  std::string replace;
};

/// A loaded kernel: runs it on the victim's problem and looks at the result. Any thread.
using RunKernel = std::function<Outcome(const RunOptions& options)>;

class Victim {
 public:
  virtual ~Victim() = default;
  const std::string& name() const { return name_; }

  /// The kernel's PTX; with `patch`, of the changed source.
  virtual Result<std::string> ptx(const Patch* patch) const = 0;
  virtual Result<RunKernel> load(const std::string& ptx) const = 0;

 protected:
  explicit Victim(std::string name) : name_(std::move(name)) {}

 private:
  std::string name_;
};

/// "forward_causal", "forward_ordered", "forward_lengths", "forward_used": four configurations of
/// the sm_90a forward. "gemm", "gemm_pair", "gemm_tensor": tcgen05 products as PTX text. "chain":
/// two of them, from CUDA source. Made once. All but the gemms need NVRTC.
const std::vector<std::unique_ptr<Victim>>& victims();

/// The first warning of a run; empty if there is none.
std::string first_warning(const Tally& tally);

/// What an error of the emulator's says about the fault.
Notice notice_of(const std::string& error);

/// Changes `text`. Error: what stands there how often.
Status apply(const Patch& patch, std::string& text);

std::unique_ptr<Victim> forward_victim(int which);
std::vector<std::unique_ptr<Victim>> tensor_victims();

}  // namespace fa4::emulator::mutants
