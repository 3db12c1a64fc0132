// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/variant.h"

namespace fa4::gpu {

Result<Variant> Variant::make(const Runtime& runtime, const AttentionProblem& spec,
                              std::string_view changes) {
  auto problem = core::validate(spec);
  if (!problem.ok()) return problem.status();
  const std::string missing = sm90::unsupported_forward(*problem);
  if (!missing.empty()) return unsupported("the GPU backend has no " + missing);
  const auto config =
      sm90::vary(sm90::choose_forward(*problem, runtime.properties().pair_keys), changes);
  if (!config.ok()) return config.status();
  auto forward = sm90::Forward::make(runtime, *problem, *config);
  if (!forward.ok()) return forward.status();
  return Variant(*std::move(problem), *std::move(forward));
}

Status Variant::check(std::string_view changes) {
  return sm90::vary(sm90::all_forward_configs().front(), changes).status();
}

}  // namespace fa4::gpu
