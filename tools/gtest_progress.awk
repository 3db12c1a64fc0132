# SPDX-License-Identifier: BSD-3-Clause
# Reads the output of a GoogleTest program as it comes. Prints a line for each suite that ends and
# the whole output of each test that fails; writes "passed N", "failed NAME" and
# "skipped NAME<tab>why" to the file `results`.
function test_name(line) {
  sub(/^\[[ A-Z]*\] /, "", line)
  sub(/,? \(?(where|[0-9]+ ms\)).*$/, "", line)
  return line
}
BEGIN { printf "" > results }
/^\[ RUN      \]/ { running = test_name($0); output = ""; last = ""; next }
/^\[       OK \] .* \([0-9]+ ms\)$/ { ++passed; running = ""; next }
/^\[  SKIPPED \] .* \([0-9]+ ms\)$/ {
  printf "skipped %s\t%s\n", test_name($0), last > results
  running = ""
  next
}
/^\[  FAILED  \] .* \([0-9]+ ms\)$/ {
  printf "%s%s\n", output, $0
  printf "failed %s\n", test_name($0) > results
  running = ""
  next
}
/^\[----------\] .* ms total\)$/ {
  line = $0
  sub(/^\[----------\] /, "", line)
  print "   " line
  fflush()
  next
}
/^\[  (FAILED|SKIPPED|PASSED) / { next }
running != "" { output = output $0 "\n"; if ($0 != "" && $0 !~ /: Skipped$/) last = $0 }
END {
  printf "passed %d\n", passed > results
  if (running != "") {
    printf "%s   the program ended within %s\n", output, running
    printf "failed %s (the program ended within it)\n", running > results
  }
}
