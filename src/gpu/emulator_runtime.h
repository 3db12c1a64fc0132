// SPDX-License-Identifier: BSD-3-Clause
// The emulator as a device: it runs the kernels' PTX on the CPU, in host memory. What is put on a
// stream has finished when the call returns.
#pragma once

#include "gpu/runtime.h"

namespace fa4::gpu {

/// The runtime of Device::emulator(target), made once per process. How it runs is told by the
/// environment variable FA4_EMULATOR, a list such as "seed=3,timing=latest,schedule=priority":
///   seed=N        what the adversary draws from; errors name it
///   timing=       earliest, random or latest: when copies and products complete
///   schedule=     random or priority: in what order warps run
///   workers=N     host threads; only with one does a seed replay a run
///   late_loads=   on or off: tcgen05.ld reads as late as the timing says, or at once
///   sums=         quick or hopper: how mma.sync and wgmma add products; an H200's bits are slow
///   resident=N    clusters at a time and worker
///   multiprocessors=N   as many blocks are started by kernels that ask; as the first call says
///   pair_keys=N   pairs of CTAs are taken for sequences of so many keys or more; the same
///   checks=       off, errors or warnings: what is looked for; a warning makes the launch fail too
Result<const Runtime*> emulator_runtime(Device device);

}  // namespace fa4::gpu
