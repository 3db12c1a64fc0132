# SPDX-License-Identifier: BSD-3-Clause
"""Installs the library into a fresh folder, moves that folder, and builds the examples against it
as users would: find_package, pkg-config, add_subdirectory.

    python3 tests/install/install_test.py BUILD_FOLDER

Prints "PASS name", or "FAIL name: what went wrong".
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
WORK = BUILD / "install_test"
PREFIX = WORK / "moved"
EXPECTED = "the last row is 63.500, and should be 63.500"
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion",
         "-Werror", "-O2"]


def run(*command, **environment):
    """Output of a command; what it said is in the exception if it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} {command[1]}: {done.stdout}{done.stderr}"[-2000:])
    return done.stdout


def expect(text, part):
    if part not in text:
        raise RuntimeError(f"expected {part!r}, got {text!r}")


def library_folder():
    return next(PREFIX.rglob("libfa4cpp.so")).parent


def install_and_move():
    shutil.rmtree(WORK, ignore_errors=True)
    run("cmake", "--install", BUILD, "--prefix", WORK / "first")
    (WORK / "first").rename(PREFIX)


def no_installed_text_names_the_first_place():
    for path in PREFIX.rglob("*"):
        if path.is_file() and path.suffix in {".h", ".cmake", ".pc"}:
            for place in (str(WORK), str(BUILD), str(ROOT)):
                if place in path.read_text():
                    raise RuntimeError(f"{path.name} names {place}")


def find_package():
    folder = WORK / "find_package"
    run("cmake", "-S", ROOT / "examples", "-B", folder, "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={PREFIX}", "-DCMAKE_CXX_FLAGS=" + " ".join(FLAGS),
        "-DCMAKE_C_FLAGS=" + " ".join(FLAGS))
    run("cmake", "--build", folder)
    for language in ("c", "cpp"):
        expect(run(folder / f"attention_{language}", ""), EXPECTED)


def find_package_refuses_another_minor_version():
    source = WORK / "other_version"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(x CXX)\nfind_package(fa4cpp 99.0)\n"
        "if(fa4cpp_FOUND)\n  message(FATAL_ERROR found)\nendif()\n")
    run("cmake", "-S", source, "-B", source / "build", "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={PREFIX}")


def pkg_config():
    place = {"PKG_CONFIG_PATH": str(library_folder() / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "fa4cpp", **place).split()
    folder = WORK / "pkg_config"
    folder.mkdir()
    for compiler, standard, ending in (("cc", "c11", "c"), ("c++", "c++20", "cpp")):
        program = folder / f"attention_{ending}"
        run(compiler, f"-std={standard}", *FLAGS, ROOT / "examples" / f"attention.{ending}", *flags,
            "-o", program)
        expect(run(program, "", LD_LIBRARY_PATH=str(library_folder())), EXPECTED)


def pkg_config_knows_the_version():
    place = {"PKG_CONFIG_PATH": str(library_folder() / "pkgconfig")}
    version = run("pkg-config", "--modversion", "fa4cpp", **place).strip()
    expect((PREFIX / "include/fa4/version.h").read_text(), f'"{version}"')


def headers_ask_for_cpp20_by_name():
    """One line that says it, before the errors of a compiler that doesn't know the language."""
    done = subprocess.run(["c++", "-std=c++17", "-fsyntax-only", f"-I{PREFIX}/include",
                           str(ROOT / "examples" / "attention.cpp")], capture_output=True, text=True)
    if done.returncode == 0:
        raise RuntimeError("C++17 was accepted")
    first = next(line for line in done.stderr.splitlines() if "error" in line)
    expect(first, "fa4cpp needs C++20: compile with -std=c++20")


def add_subdirectory():
    """Objects that BUILD made by the same commands are taken from there: all but the example."""
    folder = WORK / "add_subdirectory"
    log = WORK / "shared_objects.txt"
    cache = (BUILD / "CMakeCache.txt").read_text()
    unity = "ON" if re.search(r"^CMAKE_UNITY_BUILD:\w+=ON$", cache, re.MULTILINE) else "OFF"
    launcher = [sys.executable, ROOT / "tests/install/share_objects.py", BUILD, folder / "fa4cpp", log]
    run("cmake", "-S", ROOT / "tests/install/add_subdirectory", "-B", folder, "-G", "Ninja",
        f"-DFA4_SOURCE={ROOT}", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_UNITY_BUILD={unity}",
        "-DCMAKE_CXX_COMPILER_LAUNCHER=" + ";".join(str(part) for part in launcher))
    run("cmake", "--build", folder)
    lines = log.read_text().splitlines()
    print(f"{sum(line.startswith('shared') for line in lines)} of {len(lines)} objects are shared")
    expect(run(folder / "attention_cpp", ""), EXPECTED)


def installed_program():
    """The program runs from where it was moved to."""
    expect(run(PREFIX / "bin" / "fa4", "info"), "fa4 ")


def main():
    failures = 0
    for test in (install_and_move, no_installed_text_names_the_first_place, find_package,
                 find_package_refuses_another_minor_version, pkg_config,
                 pkg_config_knows_the_version, headers_ask_for_cpp20_by_name, add_subdirectory,
                 installed_program):
        name = test.__name__.replace("_", " ")
        try:
            test()
            print(f"PASS {name}", flush=True)
        except (RuntimeError, OSError, StopIteration) as error:
            failures += 1
            print(str(error))
            print(f"FAIL {name}: {(str(error).splitlines() or ['?'])[-1]}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
