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

# Runs parts one after another beside what the caller does next; what they print waits for join_parts.
start_parts() { # PART...
  local part note
  for part in "$@"; do rm -f "build/log/$part".{output,counts}; done
  for part in "$@"; do
    passed=0 failed=0 skipped=0 notes=()
    { begin_part "$part"; "part_$part"; end_part; } >"build/log/$part.output" 2>&1
    for note in "$passed $failed $skipped" "${notes[@]}"; do
      printf '%s\n' "$note"
    done >"build/log/$part.counts"
  done &
  parts_process=$!
}
join_parts() { # PART...
  local counts ok bad out
  wait "$parts_process"
  for part_name in "$@"; do
    counts=()
    cat "build/log/$part_name.output"
    mapfile -t counts <"build/log/$part_name.counts"
    [ ${#counts[@]} -gt 0 ] || { fail "$part_name" "did not come to its end"; continue; }
    read -r ok bad out <<<"${counts[0]}"
    passed=$((passed + ok))
    failed=$((failed + bad))
    skipped=$((skipped + out))
    notes+=("${counts[@]:1}")
  done
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

# How many test processes run at a time.
test_cores() { echo $(($(nproc) < 8 ? $(nproc) : 8)); }

# A GoogleTest program, its tests dealt out to processes, one a core at a time: a line for each suite as
# it ends, the whole output of tests that fail. SHARDS: how many processes, by default one a core. More
# keep every core busy to the end.
run_gtest() { # PROGRAM [FILTER [SHARDS]]
  local program=$1 filter=${2:-} log=build/log/$part_name shards=${3:-} status line i cores
  cores=$(test_cores)
  [ -n "$shards" ] || shards=$cores
  [ -z "$filter" ] || log=$log.${filter//[^[:alnum:]]/}
  rm -f "$log".[0-9]*
  seq 0 $((shards - 1)) | xargs -P "$cores" -I '{}' bash -c '. tools/test_report.sh && run_shard "$@"' _ \
    "$program" "$filter" "$log" "$shards" '{}'
  for ((i = 0; i < shards; i++)); do
    status=$(cat "$log.$i.status")
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
run_shard() { # PROGRAM FILTER LOG SHARDS SHARD
  local log=$3.$5
  GTEST_TOTAL_SHARDS=$4 GTEST_SHARD_INDEX=$5 \
    "$1" --gtest_color=no ${2:+"--gtest_filter=$2"} 2>&1 </dev/null |
    tee "$log.log" | awk -f tools/gtest_progress.awk -v results="$log.results"
  echo "${PIPESTATUS[0]}" >"$log.status"
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
