#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The GPU tests under compute-sanitizer, on a machine with a GPU and the CUDA toolkit.
#
#     tools/gpu_sanitize.sh [BUILD_FOLDER] [TOOL...]      default: build, memcheck racecheck
#
# The shapes are those of the tests named below: every kernel, every mask, lengths around tile edges.
# Exit code 1 if a tool reports an error.
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
build=${1:-build}
shift || true
tools=("$@")
[ ${#tools[@]} -gt 0 ] || tools=(memcheck racecheck)
kTests='GpuPlan.EveryHeadDim:GpuPlan.EveryMaskAndLength:GpuPlan.ManyTilesOfEveryKernel:GpuDevice.SideStream'

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
[ -x "$sanitizer" ] || { echo "error: no compute-sanitizer on PATH or in /usr/local/cuda/bin" >&2; exit 2; }
program=$build/tests/fa4_tests
[ -x "$program" ] || { echo "error: no $program: build it first" >&2; exit 2; }

failed=0
for tool in "${tools[@]}"; do
  echo "== $tool"
  log=$(mktemp)
  "$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20 \
    "$program" --gtest_filter="$kTests" --gtest_brief=1 >"$log" 2>&1
  code=$?
  grep -E '^=========|SKIPPED|PASSED|FAILED' "$log" | tail -n 40
  grep -q 'SKIPPED' "$log" && { echo "error: tests were skipped: no GPU was checked" >&2; code=1; }
  rm -f "$log"
  [ $code = 0 ] || failed=1
done
exit $failed
