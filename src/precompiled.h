// SPDX-License-Identifier: BSD-3-Clause
// Parsed once, before every source of the library. A source still includes what it uses: builds with
// sanitizers do without this file.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>
