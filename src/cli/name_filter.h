// SPDX-License-Identifier: BSD-3-Clause
// Names chosen by a regular expression. <regex> takes seconds to compile, so one file has it.
#pragma once

#include <functional>
#include <string>

namespace fa4::cli {

/// Whether a name contains a match. An empty expression matches every name.
using NameFilter = std::function<bool(const std::string& name)>;

/// Throws UsageError, which names the option, for what is no regular expression.
NameFilter name_filter(const std::string& option, const std::string& expression);

}  // namespace fa4::cli
