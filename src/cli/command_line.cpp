// SPDX-License-Identifier: BSD-3-Clause
#include "cli/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <type_traits>
#include <vector>

namespace fa4::cli {
namespace {

/// CLI11's help with one empty line between any two paragraphs.
std::string spaced(std::string help) {
  const size_t usage = help.find("\nUsage:");
  if (usage != std::string::npos) help.insert(usage, "\n");
  for (size_t at; (at = help.find("\n\n\n")) != std::string::npos;) help.erase(at, 1);
  help.erase(0, help.find_first_not_of('\n'));
  while (help.ends_with("\n\n")) help.pop_back();
  return help;
}

template <class T>
struct NumberOf {
  using Type = T;
};
template <class T>
struct NumberOf<std::optional<T>> : NumberOf<T> {};
template <class T>
struct NumberOf<std::vector<T>> : NumberOf<T> {};

/// What is wrong with a number, or "". CLI11 takes an empty word for 0, -1 for the largest unsigned
/// number and what does not fit for the last that does.
template <class T>
std::string problem_of_number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && at == end) return "";
  if (error == std::errc::result_out_of_range)
    return fmt::format("is {}, which does not fit", text);
  const char* kind = std::is_floating_point_v<T> ? "a number"
                     : std::is_signed_v<T>       ? "a whole number"
                                                 : "a whole number, 0 or more";
  return fmt::format("is '{}'; allowed: {}", text, kind);
}

}  // namespace

const Flag& Flag::group(const char* heading) const {
  option_->group(heading);
  return *this;
}
const Flag& Flag::type(const char* name) const {
  option_->type_name(name);
  return *this;
}
const Flag& Flag::range(double least, double most) const {
  // CLI11's own Range would print whole numbers with a decimal point.
  return check([least, most](const std::string& text) {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) {
      return std::string();
    }
    return fmt::format("is {}; allowed: {:.10g} to {:.10g}", text, least, most);
  });
}
const Flag& Flag::one_of(std::initializer_list<const char*> words) const {
  const std::vector<std::string> known(words.begin(), words.end());
  return check([known](const std::string& text) {
    std::string list;
    for (const std::string& word : known) {
      if (word == text) return std::string();
      list += (list.empty() ? "" : ", ") + word;
    }
    return fmt::format("is {}; allowed: {}", text, list);
  });
}
const Flag& Flag::check(std::function<std::string(const std::string&)> problem) const {
  option_->check(CLI::Validator(
      [problem = std::move(problem)](const std::string& text) { return problem(text); }, ""));
  return *this;
}
const Flag& Flag::commas() const {
  option_->delimiter(',');
  return *this;
}
const Flag& Flag::required() const {
  option_->required();
  return *this;
}
const Flag& Flag::value_if_alone(const char* value) const {
  option_->expected(0, 1)->default_str(value);
  return *this;
}

CommandLine::CommandLine(const char* name, const char* description)
    : app_(std::make_unique<CLI::App>(description, name)) {}
CommandLine::~CommandLine() = default;

template <class T>
Flag CommandLine::add(const char* names, T& target, const char* help) {
  if constexpr (std::is_same_v<T, bool>) {
    return Flag(app_->add_flag(names, target, help));
  } else {
    const Flag flag(app_->add_option(names, target, help));
    using Number = typename NumberOf<T>::Type;
    if constexpr (std::is_arithmetic_v<Number>) flag.check(problem_of_number<Number>);
    return flag;
  }
}

void CommandLine::examples(std::initializer_list<const char*> lines) {
  std::string text = "Examples:\n";
  for (const char* line : lines) text += fmt::format("  fa4 {}\n", line);
  app_->footer(text);
}

std::optional<int> CommandLine::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", spaced(app_->help()));
    return kExitOk;
  } catch (const CLI::ExtrasError&) {  // its own text has the words in reverse
    std::string words;
    for (const std::string& word : app_->remaining()) words += " " + word;
    fmt::print(stderr, "{}: unknown option or argument:{}\nSee '{} --help'.\n", app_->get_name(),
               words, app_->get_name());
    return kExitUsage;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{}: {}\nSee '{} --help'.\n", app_->get_name(), error.what(),
               app_->get_name());
    return kExitUsage;
  }
}

bool CommandLine::given(const char* name) const { return app_->count(name) > 0; }

template Flag CommandLine::add(const char*, bool&, const char*);
template Flag CommandLine::add(const char*, int&, const char*);
template Flag CommandLine::add(const char*, int64_t&, const char*);
template Flag CommandLine::add(const char*, uint64_t&, const char*);
template Flag CommandLine::add(const char*, double&, const char*);
template Flag CommandLine::add(const char*, std::string&, const char*);
template Flag CommandLine::add(const char*, std::filesystem::path&, const char*);
template Flag CommandLine::add(const char*, std::optional<int64_t>&, const char*);
template Flag CommandLine::add(const char*, std::optional<double>&, const char*);
template Flag CommandLine::add(const char*, std::optional<std::filesystem::path>&, const char*);
template Flag CommandLine::add(const char*, std::vector<int>&, const char*);
template Flag CommandLine::add(const char*, std::vector<int64_t>&, const char*);
template Flag CommandLine::add(const char*, std::vector<std::string>&, const char*);

}  // namespace fa4::cli
