#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# tools/lint.sh CLANG_TIDY BUILD_FOLDER [FILE...]: clang-tidy over src/, every core at work. A file
# that was clean stays so, unseen, until it, a header, or .clang-tidy changes. Prints "PASS file" or
# "FAIL file: count", and what was found.
set -uo pipefail
tool=$1
build=$2
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# -gt 0 ] && files=("$@") || mapfile -t files < <(find src -name "*.cpp" | sort)
mkdir -p "$build/tidy"
# The commands for each file by itself, without GCC's precompiled headers, which clang cannot read: so a
# file that relies on another's includes is found here.
cmake -S . -B "$build/tidy" -G Ninja -DCMAKE_UNITY_BUILD=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
  -DFA4_BUILD_TESTS=OFF -DFA4_FEW_TARGETS=ON >"$build/tidy/configure.log" 2>&1 ||
  { cat "$build/tidy/configure.log"; echo "FAIL configure $build/tidy"; exit 1; }
common=$({ "$tool" --version; cat .clang-tidy; find include src -name '*.h' | sort | xargs cat; } | cksum)

lint() {
  local file=$1 log=$build/tidy/${1//\//_}.log stamp newer
  # What stands in the way of clang 14 where the compiler, its library and Highway are newer: warnings
  # by names that it does not know, immediate functions in <chrono>, attributes without a function.
  newer=(-Wno-unknown-warning-option -Dconsteval=constexpr -Wno-pragma-clang-attribute)
  stamp=$build/tidy/${file//\//_}.$(echo "$common" | cat - "$file" | cksum | cut -d ' ' -f 1)
  if [ -e "$stamp" ]; then
    echo "PASS $file"
  elif "$tool" -p "$build/tidy" --quiet "${newer[@]/#/--extra-arg=}" "$file" >"$log" 2>/dev/null; then
    rm -f "$build/tidy/${file//\//_}".[0-9]*
    touch "$stamp"
    echo "PASS $file"
  else
    cat "$log"
    echo "FAIL $file: $(grep -c 'error:' "$log") findings"
  fi
}
export -f lint
export tool build common
printf '%s\n' "${files[@]}" | nice -n 5 xargs -P "$(nproc)" -I '{}' bash -c 'lint "$1"' _ '{}'
