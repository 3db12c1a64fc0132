// SPDX-License-Identifier: BSD-3-Clause
// Mutants that nothing notices, each with the reason.
#pragma once

#include <span>

namespace fa4::emulator::mutants {

struct Survivor {
  const char* name;
  const char* reason;
};

/// What is drawn by program depends on the PTX, so names hold for one version of NVRTC.
constexpr const char* kSurvivorsNvrtc = "13.0";

/// Faults by the PTX ISA that no check knows.
std::span<const Survivor> survivors();
/// No faults after all: the kernel is as right as before.
std::span<const Survivor> equivalents();

}  // namespace fa4::emulator::mutants
