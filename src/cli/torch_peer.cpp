// SPDX-License-Identifier: BSD-3-Clause
#include "cli/torch_peer.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace fa4::cli {

std::string TorchPeer::version() const {
  if (!available()) return "";
  const nlohmann::json hello = process_.hello();
  return fmt::format("{}, {}", hello.value("torch", "?"), hello.value("capability", "?"));
}

bool TorchPeer::prepare(const Cell& cell) {
  if (!available()) return false;
  return process_
      .ask({{"op", "prepare"},
            {"pass", cell.pass == Pass::kForward ? "forward" : "backward"},
            {"dtype", to_string(cell.dtype)},
            {"batch", cell.batch},
            {"seqlen_q", cell.s_q},
            {"seqlen_k", cell.s_k},
            {"heads_q", cell.heads_q},
            {"heads_k", cell.heads_k},
            {"dim", cell.d},
            {"causal", cell.causal},
            {"threads", cell.threads}})
      .has_value();
}

std::optional<double> TorchPeer::run() {
  const std::optional<nlohmann::json> answer = process_.ask({{"op", "run"}});
  if (!answer || !answer->contains("seconds")) return std::nullopt;
  return (*answer)["seconds"].get<double>();
}

}  // namespace fa4::cli
