// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/program.h"

namespace fa4::emulator {

const char* name_of(Class c) {
  switch (c) {
    case Class::kMove:
      return "move";
    case Class::kInteger:
      return "integer";
    case Class::kFloat:
      return "float";
    case Class::kSpecial:
      return "special function";
    case Class::kConvert:
      return "convert";
    case Class::kPredicate:
      return "predicate";
    case Class::kControl:
      return "control";
    case Class::kParam:
      return "parameter";
    case Class::kGlobal:
      return "global memory";
    case Class::kShared:
      return "shared memory";
    case Class::kLocal:
      return "local memory";
    case Class::kAtomic:
      return "atomic";
    case Class::kWarp:
      return "warp";
    case Class::kBarrier:
      return "barrier";
    case Class::kCopy:
      return "copy";
    case Class::kMatrix:
      return "matrix";
    case Class::kTensor:
      return "tensor memory";
    case Class::kOther:
      return "other";
  }
  return "?";
}

std::shared_ptr<const Kernel> Program::find(std::string_view name) const {
  for (const auto& kernel : kernels) {
    if (kernel->name == name) return kernel;
  }
  return nullptr;
}

}  // namespace fa4::emulator
