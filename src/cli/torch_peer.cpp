// SPDX-License-Identifier: BSD-3-Clause
#include "cli/torch_peer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fa4::cli {
namespace {

constexpr int kPatienceMilliseconds = 300'000;

/// What the child does between fork and exec: nothing that another thread's lock could stop.
[[noreturn]] void become(const char* python, int input, int output) {
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  const int null = open("/dev/null", O_WRONLY);
  if (null >= 0) dup2(null, STDERR_FILENO);
  execlp(python, python, "-c", kTorchPeerScript, static_cast<char*>(nullptr));
  _exit(127);
}

}  // namespace

TorchPeer::TorchPeer(const std::string& python) {
  start(python);
  if (process_ < 0) return;
  const std::optional<nlohmann::json> hello = read_line();
  if (!hello) {
    problem_ = fmt::format("{} could not be run", python);
  } else if (hello->contains("error")) {
    problem_ = fmt::format("{}: {}", python, (*hello)["error"].get<std::string>());
  } else {
    version_ = fmt::format("{}, {}", hello->value("torch", "?"), hello->value("capability", "?"));
  }
  if (!version_) stop();
}

TorchPeer::~TorchPeer() { stop(); }

void TorchPeer::start(const std::string& python) {
  signal(SIGPIPE, SIG_IGN);  // A peer that died is told by the failed write.
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
    problem_ = fmt::format("no pipe: {}", std::strerror(errno));
    return;
  }
  process_ = fork();
  if (process_ == 0) become(python.c_str(), to[0], from[1]);
  close(to[0]);
  close(from[1]);
  to_ = to[1];
  from_ = from[0];
  if (process_ < 0) problem_ = fmt::format("no process: {}", std::strerror(errno));
}

void TorchPeer::stop() {
  if (to_ >= 0) close(to_);  // The script ends at the end of its input.
  if (from_ >= 0) close(from_);
  to_ = from_ = -1;
  if (process_ > 0) waitpid(process_, nullptr, 0);
  process_ = -1;
}

std::optional<nlohmann::json> TorchPeer::read_line() {
  size_t end = 0;
  while ((end = buffer_.find('\n')) == std::string::npos) {
    pollfd wait{from_, POLLIN, 0};
    if (poll(&wait, 1, kPatienceMilliseconds) <= 0) return std::nullopt;
    char chunk[4096];
    const ssize_t got = read(from_, chunk, sizeof(chunk));
    if (got <= 0) return std::nullopt;
    buffer_.append(chunk, static_cast<size_t>(got));
  }
  const std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return std::nullopt;
  return json;
}

std::optional<nlohmann::json> TorchPeer::ask(const nlohmann::json& request) {
  const std::string line = request.dump() + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t sent = write(to_, line.data() + at, line.size() - at);
    if (sent <= 0) {
      problem_ = "torch's process has ended";
      return std::nullopt;
    }
    at += static_cast<size_t>(sent);
  }
  std::optional<nlohmann::json> answer = read_line();
  if (!answer) {
    problem_ = "torch's process has ended or does not answer";
  } else if (answer->contains("error")) {
    problem_ = (*answer)["error"].get<std::string>();
    return std::nullopt;
  }
  return answer;
}

bool TorchPeer::prepare(const Cell& cell) {
  if (!available()) return false;
  return ask({{"op", "prepare"},
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
  const std::optional<nlohmann::json> answer = ask({{"op", "run"}});
  if (!answer || !answer->contains("seconds")) return std::nullopt;
  return (*answer)["seconds"].get<double>();
}

}  // namespace fa4::cli
