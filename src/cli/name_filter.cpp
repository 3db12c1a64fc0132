// SPDX-License-Identifier: BSD-3-Clause
#include "cli/name_filter.h"

#include <fmt/core.h>

#include <regex>

#include "cli/commands.h"

namespace fa4::cli {

NameFilter name_filter(const std::string& option, const std::string& expression) {
  try {
    return [wanted = std::regex(expression)](const std::string& name) {
      return std::regex_search(name, wanted);
    };
  } catch (const std::regex_error&) {
    throw UsageError(fmt::format("{}: '{}' is no regular expression", option, expression));
  }
}

}  // namespace fa4::cli
