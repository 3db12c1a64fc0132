// SPDX-License-Identifier: BSD-3-Clause
// Parsed once, before every source of the tests. A source still includes what it uses: builds with
// sanitizers do without this file.
#pragma once

#include <gtest/gtest.h>

#include "precompiled.h"
