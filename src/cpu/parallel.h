// SPDX-License-Identifier: BSD-3-Clause
// The one place that starts threads.
#pragma once

#include <functional>

namespace fa4::cpu {

/// Cores that this process may use (its affinity mask, not the machine's count).
int available_threads();

/// Calls body(worker) once for each worker in [0, workers), each on a thread of its own as far as
/// there are threads, and returns when all have returned. Workers share work through a counter of
/// their own, so it is no error if some start late. body must not throw.
void run_workers(int workers, const std::function<void(int)>& body);

}  // namespace fa4::cpu
