// SPDX-License-Identifier: BSD-3-Clause
#include "cli/script_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace fa4::cli {
namespace {

constexpr int kPatienceMilliseconds = 300'000;

/// What the child does between fork and exec: nothing that another thread's lock could stop.
[[noreturn]] void become(const char* python, const char* script, int input, int output) {
  signal(SIGINT, SIG_IGN);  // Ctrl-C is its parent's to answer, whose end ends the script.
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  const int null = open("/dev/null", O_WRONLY);
  if (null >= 0) dup2(null, STDERR_FILENO);
  execlp(python, python, "-c", script, static_cast<char*>(nullptr));
  _exit(127);
}

}  // namespace

ScriptProcess::ScriptProcess(const std::string& python, const char* script) {
  start(python.c_str(), script);
  if (process_ < 0) return;
  const std::optional<nlohmann::json> hello = read_line();
  if (!hello) {
    problem_ = fmt::format("{} could not be run", python);
  } else if (hello->contains("error")) {
    problem_ = fmt::format("{}: {}", python, (*hello)["error"].get<std::string>());
  } else {
    hello_ = std::make_unique<nlohmann::json>(*hello);
  }
  if (!hello_) stop();
}

ScriptProcess::~ScriptProcess() { stop(); }

nlohmann::json ScriptProcess::hello() const { return available() ? *hello_ : nlohmann::json(); }

std::optional<nlohmann::json> ScriptProcess::ask(const nlohmann::json& request) {
  return send(request) ? receive() : std::nullopt;
}

void ScriptProcess::start(const char* python, const char* script) {
  signal(SIGPIPE, SIG_IGN);  // A peer that died is told by the failed write.
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
    problem_ = fmt::format("no pipe: {}", std::strerror(errno));
    return;
  }
  process_ = fork();
  if (process_ == 0) become(python, script, to[0], from[1]);
  close(to[0]);
  close(from[1]);
  to_ = to[1];
  from_ = from[0];
  if (process_ < 0) problem_ = fmt::format("no process: {}", std::strerror(errno));
}

void ScriptProcess::stop() {
  if (to_ >= 0) close(to_);  // The script ends at the end of its input.
  if (from_ >= 0) close(from_);
  to_ = from_ = -1;
  if (process_ > 0) waitpid(process_, nullptr, 0);
  process_ = -1;
}

std::optional<nlohmann::json> ScriptProcess::read_line() {
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

bool ScriptProcess::send(const nlohmann::json& request) {
  const std::string line = request.dump() + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t sent = write(to_, line.data() + at, line.size() - at);
    if (sent <= 0) {
      problem_ = "the script's process has ended";
      return false;
    }
    at += static_cast<size_t>(sent);
  }
  return true;
}

std::optional<nlohmann::json> ScriptProcess::receive() {
  std::optional<nlohmann::json> answer = read_line();
  if (!answer) {
    problem_ = "the script's process has ended or does not answer";
  } else if (answer->contains("error")) {
    problem_ = (*answer)["error"].get<std::string>();
    return std::nullopt;
  }
  return answer;
}

}  // namespace fa4::cli
