// SPDX-License-Identifier: BSD-3-Clause
// What the commands use of CLI11, behind a wall: CLI11 takes eight seconds to compile, once.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
class Option;
}  // namespace CLI

namespace fa4::cli {

/// One option of a command line; each call refines it.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  const Flag& group(const char* heading) const;  ///< The heading that the help lists it under.
  const Flag& type(const char* name) const;      ///< The word for its value in the help.
  const Flag& range(double least, double most) const;
  const Flag& one_of(std::initializer_list<const char*> words) const;
  /// `problem` says what is wrong with a value, or returns "".
  const Flag& check(std::function<std::string(const std::string&)> problem) const;
  const Flag& commas() const;    ///< A list may be one word: a,b,c.
  const Flag& required() const;  ///< Must be given.
  /// The value may be left out, and is `value` then.
  const Flag& value_if_alone(const char* value) const;

 private:
  CLI::Option* option_;
};

class CommandLine {
 public:
  CommandLine(const char* name, const char* description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// An option whose value goes to `target`; a bool becomes true by naming it. "name" without
  /// dashes is positional. The types are those at the end of command_line.cpp.
  template <class T>
  Flag add(const char* names, T& target, const char* help);
  /// Command lines that end the help text, without the leading "fa4".
  void examples(std::initializer_list<const char*> lines);
  /// The exit code if the command is over: 0 after --help, kExitUsage after an error, which it
  /// prints.
  std::optional<int> parse(int argc, char** argv);
  /// Whether the user named the option.
  bool given(const char* name) const;

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace fa4::cli
