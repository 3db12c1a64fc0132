// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous copies: cp.async, cp.async.bulk, tensor copies.
#pragma once

#include "emulator/program.h"
#include "emulator/tile_copy.h"

namespace fa4::emulator::exec {

/// What ends a bulk copy: an mbarrier's byte count, or the thread's bulk group.
enum class BulkKind : uint8_t {
  kTensorLoad,      ///< global -> shared, mbarrier
  kTensorStore,     ///< shared -> global, group; mod[2] = ReduceKind
  kLoad,            ///< global -> shared, mbarrier
  kStore,           ///< shared -> global, group; mod[2] = ReduceKind, mod[3] = MapType
  kSharedToShared,  ///< CTA to CTA of the cluster, mbarrier; mod[2], mod[3] likewise
};

/// Registers of the list, in order: tensor copies have map address (64 bits), shared address,
/// coordinates; others destination, source, size. Then, where there is one, the mbarrier and the
/// CTA mask.
/// mod[0] BulkKind, mod[1] dimensions, mod[4] cta_group 2, mod[5] multicast, mod[7] a column
/// and four rows; mod[8..10] address bytes of the list's first three, mod[11] of the mbarrier;
/// b, c: offsets of the first two addresses, e of the mbarrier.
Handler bulk_copy();
/// imm: groups that may stay pending. mod[0]: .read.
Handler bulk_wait();
Handler bulk_commit();

/// st.async, red.async. The list: destination, mbarrier, values. b, c: offsets of the first two;
/// mod[8], mod[9] bytes of their addresses, mod[5] of a value; mod[2] ReduceKind, mod[3] MapType.
Handler async_store();

/// cp.async: a destination (shared), b source (global), c bytes to read (kNone: all);
/// mod[0]: size of the copy.
Handler copy_async();
Handler copy_commit();
/// imm: groups that may stay pending; mod[0]: wait for all, committed or not.
Handler copy_wait();
/// cp.async.mbarrier.arrive: a address; mod[0]: .noinc.
Handler copy_arrive();

}  // namespace fa4::emulator::exec
