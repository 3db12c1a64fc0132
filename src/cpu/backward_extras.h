// SPDX-License-Identifier: BSD-3-Clause
// What the backward pass does outside its main loop: clearing dq, dk and dv before it, and the
// gradients of the sink and the bias after it. Each job writes an output of its own, so that any
// thread may do it.
#pragma once

#include "cpu/backward_tiles.h"

namespace fa4::cpu {

/// Jobs to run, numbered: those of dbias first, they are the longest.
struct ExtraJobs {
  int64_t bias = 0;     ///< One for each tile of dbias.
  int64_t sink = 0;     ///< One for each query head.
  int64_t clear_q = 0;  ///< Jobs that clear dq: one for each 64 rows,
  int64_t clear_k = 0;  ///< dk and dv.

  int64_t count() const { return bias + sink + clear_q + clear_k; }
};

/// `q`: whether there are rows of dq that the main loop does not write; `k` likewise.
template <class T>
ExtraJobs clearing_jobs(const BackwardContext<T>& context, bool q, bool k);
template <class T>
ExtraJobs sink_and_bias_jobs(const BackwardContext<T>& context);

template <class T>
void run_extra_job(const BackwardContext<T>& context, const ExtraJobs& jobs, int64_t job,
                   const WorkerScratch<T>& worker);

}  // namespace fa4::cpu
