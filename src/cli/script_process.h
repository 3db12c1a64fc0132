// SPDX-License-Identifier: BSD-3-Clause
// A Python script in a process of its own that answers JSON lines with JSON lines.
#pragma once

#include <sys/types.h>

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace fa4::cli {

class ScriptProcess {
 public:
  /// Starts `python -c script` and reads its first line. One with an "error" says that it can't
  /// work here.
  ScriptProcess(const std::string& python, const char* script);
  ~ScriptProcess();
  ScriptProcess(const ScriptProcess&) = delete;
  ScriptProcess& operator=(const ScriptProcess&) = delete;

  bool available() const { return hello_ != nullptr; }
  /// The first line; null if it is not available.
  nlohmann::json hello() const;
  /// What went wrong last.
  const std::string& problem() const { return problem_; }

  /// The answer; nothing, with problem() set, if there is none or it is an error.
  std::optional<nlohmann::json> ask(const nlohmann::json& request);
  /// The two halves of ask().
  bool send(const nlohmann::json& request);
  std::optional<nlohmann::json> receive();

 private:
  void start(const char* python, const char* script);
  void stop();
  std::optional<nlohmann::json> read_line();

  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
  std::string buffer_;
  std::unique_ptr<nlohmann::json> hello_;
  std::string problem_;
};

}  // namespace fa4::cli
