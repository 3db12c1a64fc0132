# SPDX-License-Identifier: BSD-3-Clause
# How ./test counts: checks that pass, fail or are skipped, in parts that print their name and time.
# To be sourced.

passed=0
failed=0
skipped=0
notes=() # a line for each check that failed or was skipped

begin_part() {
  part_name=$1
  part_start=$SECONDS
  part_before=($passed $failed $skipped)
  printf '\n== %s\n' "$part_name"
}
end_part() {
  printf '== %s: %d passed, %d failed, %d skipped in %d s\n' "$part_name" \
    $((passed - part_before[0])) $((failed - part_before[1])) $((skipped - part_before[2])) \
    $((SECONDS - part_start))
}

pass() { passed=$((passed + 1)); }
fail() { # NAME [WHY]
  failed=$((failed + 1))
  notes+=("FAILED  $part_name: $1${2:+: $2}")
  printf '   FAILED %s\n' "$1${2:+: $2}"
}
skip() { # NAME WHY
  skipped=$((skipped + 1))
  notes+=("skipped $part_name: $1: $2")
  printf '   skipped %s: %s\n' "$1" "$2"
}

# One check, from an exit status.
check() { # NAME STATUS
  if [ "$2" = 0 ]; then
    pass
    printf '   ok %s\n' "$1"
  else
    fail "$1" "exit status $2"
  fi
}

# A program that prints "PASS name", "FAIL name: why" and "SKIP name: why" lines, and what it likes
# between. Ending badly without a FAIL line is a failure too.
run_checks() { # COMMAND...
  local status=0 before=$failed line log=build/log/$part_name.log
  while IFS= read -r line; do
    case $line in
      "ENDED "*) status=${line#ENDED } ;;
      "PASS "*) pass; printf '   ok %s\n' "${line#PASS }" ;;
      "FAIL "*) fail "${line#FAIL }" ;;
      "SKIP "*) line=${line#SKIP }; skip "${line%%: *}" "${line#*: }" ;;
      *) printf '   %s\n' "$line" ;;
    esac
  done < <("$@" 2>&1 </dev/null | tee "$log"; echo "ENDED ${PIPESTATUS[0]}")
  [ "$status" = 0 ] || [ "$failed" -gt "$before" ] || fail "$1" "exit status $status"
}

# A program that shows what it likes and ends with "N passed, N failed, N skipped".
run_counting() { # COMMAND...
  local status=0 log=build/log/$part_name.log line ok bad out
  "$@" </dev/null 2>&1 | tee "$log" | sed -u 's/^/   /' || status=$?
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
  if [ -z "$line" ]; then
    fail "$1" "ended with status $status and no count"
    return
  fi
  read -r ok _ bad _ out _ <<<"$line"
  passed=$((passed + ok))
  failed=$((failed + bad))
  skipped=$((skipped + out))
  [ "$bad" = 0 ] || notes+=("FAILED  $part_name: $bad, see $log")
  [ "$out" = 0 ] || notes+=("skipped $part_name: $(grep -E '^skipped [0-9]+: ' "$log" | tr '\n' ' ')")
  [ "$status" = 0 ] || [ "$bad" -gt 0 ] || fail "$1" "ended with status $status"
}

# A GoogleTest program, its tests shared out over the cores (eight at most): a line for each suite as
# it ends, the whole output of tests that fail.
run_gtest() { # PROGRAM
  local program=$1 log=build/log/$part_name shards status=0 line i runs=()
  shards=$(nproc)
  [ "$shards" -le 8 ] || shards=8
  for ((i = 0; i < shards; i++)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$program" --gtest_color=no 2>&1 </dev/null |
      tee "$log.$i.log" | awk -f tools/gtest_progress.awk -v results="$log.$i.results" &
    runs+=($!)
  done
  for i in "${!runs[@]}"; do
    status=0
    wait "${runs[i]}" || status=$?
    while IFS= read -r line; do
      case $line in
        passed*) passed=$((passed + ${line#passed })) ;;
        failed*) fail "${line#failed }" ;;
        skipped*) line=${line#skipped }; skip "${line%%$'\t'*}" "${line#*$'\t'}" ;;
      esac
    done <"$log.$i.results"
    [ "$status" = 0 ] || grep -q '^failed' "$log.$i.results" ||
      fail "$program" "ended with status $status, see $log.$i.log"
  done
}

# What was skipped and what failed, then the closing line; the exit status says whether all is well.
finish() {
  printf '\n'
  if [ ${#notes[@]} -gt 0 ]; then
    printf '%s\n' "${notes[@]}" | sort -r | cut -c 1-300
    printf '\n'
  fi
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}
