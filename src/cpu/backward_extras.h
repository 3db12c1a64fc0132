// SPDX-License-Identifier: BSD-3-Clause
// What the backward pass does outside its main loop: clearing dq, dk, dv, and the gradients of the
// sink and the bias. Each job below writes an output of its own, so that any thread may do it.
#pragma once

#include "cpu/backward_tiles.h"

namespace fa4::cpu {

/// The jobs of one run, numbered.
struct ExtraJobs {
  int64_t clear_q = 0;  ///< Jobs that clear dq: one for each kClearRows rows,
  int64_t clear_k = 0;  ///< dk and dv.
  int64_t sink = 0;     ///< One for each query head.
  int64_t bias = 0;     ///< One for each tile of dbias.

  int64_t count() const { return clear_q + clear_k + sink + bias; }
};

/// `clear_q`: whether there are rows of dq that the main loop does not write; `clear_k` likewise.
template <class T>
ExtraJobs extra_jobs(const BackwardContext<T>& context, bool clear_q, bool clear_k);

template <class T>
void run_extra_job(const BackwardContext<T>& context, const ExtraJobs& jobs, int64_t job,
                   const WorkerScratch<T>& worker, const TileScratch<T>& tile);

}  // namespace fa4::cpu
