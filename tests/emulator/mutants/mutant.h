// SPDX-License-Identifier: BSD-3-Clause
// Faults put into kernels on purpose, to see whether the emulator notices them. docs/notes/
// emulator_mutants.md has the score.
//
// Rule of the list: a fault is written from the kernel and the PTX ISA, before anyone looks at
// whether a check finds it, and is never taken off. One that turns out to be none by the PTX ISA
// stays, and is explained in survivors.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/mutants/victim.h"

namespace fa4::emulator::mutants {

/// What a line of the PTX text becomes.
struct PtxEdit {
  size_t line = 0;   ///< From 0.
  std::string text;  ///< May be several lines, or none.
};

struct Mutant {
  std::string name;                  ///< Of its own.
  std::string kind;                  ///< "wait", "count", "fence", "phase", "descriptor" ...
  std::vector<std::string> victims;  ///< By name; tried in this order.
  bool by_program = false;
  Patch patch;                              ///< By hand.
  std::shared_ptr<const std::string> base;  ///< By program: the one victim's PTX,
  std::vector<PtxEdit> edits;               ///< and what becomes of it.
  std::string why;                          ///< It is a fault.
};

/// Written by hand: faults of the sm_90a forward, and of the tcgen05 kernels.
std::vector<Mutant> forward_faults();
std::vector<Mutant> tensor_faults();

/// Made by a program from the PTX text of a victim: the same ones for the same text and seed.
std::vector<Mutant> program_faults(const Victim& victim, std::shared_ptr<const std::string> ptx,
                                   int count, uint64_t seed);

/// All of them. What is drawn depends on the PTX, and so on NVRTC's version.
Result<std::vector<Mutant>> all_mutants();

/// The mutant's PTX for a victim of its own.
Result<std::string> mutated_ptx(const Mutant& mutant, const Victim& victim);

/// A victim's own PTX: compiled once.
const Result<std::string>& original_ptx(const Victim& victim);

const Victim& victim_named(const std::string& name);

}  // namespace fa4::emulator::mutants
