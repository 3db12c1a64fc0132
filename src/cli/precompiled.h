// SPDX-License-Identifier: BSD-3-Clause
// Parsed once, before every source of the program. A source still includes what it uses: builds with
// sanitizers do without this file.
#pragma once

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "precompiled.h"
