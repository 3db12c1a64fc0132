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
# The commands without GCC's precompiled headers, which clang cannot read.
sed -E 's/ -fpch-preprocess| -Winvalid-pch -include [^ ]*cmake_pch\.hxx//g' \
  "$build/compile_commands.json" >"$build/tidy/compile_commands.json"
common=$({ "$tool" --version; cat .clang-tidy; find include src -name '*.h' | sort | xargs cat; } | cksum)

lint() {
  local file=$1 log=$build/tidy/${1//\//_}.log stamp
  stamp=$build/tidy/${file//\//_}.$(echo "$common" | cat - "$file" | cksum | cut -d ' ' -f 1)
  if [ -e "$stamp" ]; then
    echo "PASS $file"
  elif "$tool" -p "$build/tidy" --quiet --extra-arg=-DFA4_FEW_TARGETS "$file" >"$log" 2>/dev/null; then
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
