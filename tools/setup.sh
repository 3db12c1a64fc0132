# SPDX-License-Identifier: BSD-3-Clause
# What ./run and ./test share: install packages, make the Python environment, configure and build.
# To be sourced, with the current folder at the repository's root. Talks on standard error, so that
# the program's own output stays clean.

kBuildPackages=(g++ cmake ninja-build pkg-config libhwy-dev libtbb-dev
                libcli11-dev libfmt-dev nlohmann-json3-dev)
kPythonPackages=(python3 python3-venv)

say() { printf '== %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Those of the named Debian packages that are not installed, one a line.
missing_packages() {
  local name
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || echo "$name"
  done
}

# Prefix for commands that need root: nothing, or sudo. Fails if there is no way.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -- "$@"; fi
}
can_be_root() { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }

# Long commands: a line for every step on the way, everything in build/log/NAME.log.
logged() { # NAME FILTER COMMAND...
  local log=build/log/$1.log filter=$2
  shift 2
  mkdir -p build/log
  if "$@" 2>&1 </dev/null | tee "$log" | { grep --line-buffered -E "$filter" || true; } |
      sed -u -e 's/^/   /' | cut -c 1-100 >&2; then
    return 0
  fi
  tail -n 20 "$log" >&2
  return 1
}

apt_install() {
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Use-Pty=0)
  logged apt-update '^(Err|W:|E:)' as_root "${apt[@]}" update || say "apt-get update failed; trying anyway"
  logged apt-install '^(Get:|Setting up|E:)' as_root "${apt[@]}" install -y --no-install-recommends "$@"
}

# Installs what is missing of the named packages, or says plainly what is missing.
need_packages() {
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || {
    say "no apt here: taking it that these (Debian's names) are installed: $*"
    return 0
  }
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  can_be_root || die "these packages are missing, and there is neither root nor sudo to install" \
    "them; ask for: apt-get install ${missing[*]}"
  say "installing ${missing[*]}"
  apt_install "${missing[@]}" || die "apt-get could not install: ${missing[*]}"
}

# The same for packages that the system may not have or that we can do without; fails quietly.
want_packages() {
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || return 1
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  can_be_root || return 1
  say "installing ${missing[*]}"
  apt_install "${missing[@]}"
}

# .venv with the packages of a list. Fails (with a line that says why) if it can't be made.
need_venv() { # [REQUIREMENTS]
  local list=${1:-tools/requirements.txt} stamp
  stamp=.venv/.installed-$(cksum <"$list" | cut -d ' ' -f 1)
  [ -e "$stamp" ] && return 0
  want_packages "${kPythonPackages[@]}" || { say "no python3-venv: going on without"; return 1; }
  say "installing into .venv: $(grep -v '^#' "$list" | tr '\n' ' ')"
  python3 -m venv .venv >&2 &&
    logged pip '^(Collecting|Installing|Successfully|ERROR)' \
      .venv/bin/python -m pip install --disable-pip-version-check -r "$list" ||
    { say "pip could not install them: going on without"; return 1; }
  touch "$stamp"
}

# Configures PRESET into FOLDER unless that has happened with the same arguments.
configure() { # PRESET FOLDER CMAKE_ARGS...
  local preset=$1 folder=$2 stamp
  shift 2
  stamp=$folder/.configured-$(printf '%s ' "$preset" "$@" | cat - CMakePresets.json | cksum | cut -d ' ' -f 1)
  [ -e "$stamp" ] && [ -e "$folder/build.ninja" ] && return 0
  say "configuring $folder"
  command -v ccache >/dev/null && set -- -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "$@"
  logged "configure-$preset" 'CMake (Error|Warning)' cmake --preset "$preset" "$@" || return 1
  rm -f "$folder"/.configured-*
  touch "$stamp"
}

# Builds targets; silent when there is nothing to do.
build() { # FOLDER TARGETS...
  local folder=$1 log
  shift
  log=build/log/build-$(basename "$folder").log
  mkdir -p build/log
  if NINJA_STATUS='   [%f/%t, %es] ' nice -n 5 ninja -C "$folder" -j "$(nproc)" "$@" 2>&1 |
      tee "$log" | sed -u -E -e '/^ninja: |^-- |Re-checking globbed|^: && |^\/usr\/bin\/.* -c /d' \
        -e 's#CMakeFiles/[^ ]*\.dir/##' >&2; then
    return 0
  fi
  say "the build failed; its output is in $log"
  return 1
}
