# SPDX-License-Identifier: BSD-3-Clause
"""What the house rules say about files, includes and symbols, checked.

    python3 tests/hygiene/hygiene_test.py BUILD_FOLDER

Prints "PASS name", or "FAIL name: complaint" for each complaint.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
LIBRARY = BUILD / "src" / "libfa4cpp.so"
CHECKS = []

SOURCE_ENDINGS = {".h", ".cpp", ".cuh", ".c", ".py", ".sh", ".cmake", ".awk", ".map", ".in", ".txt"}
SOURCE_NAMES = {"run", "test", ".clang-format", ".clang-tidy"}
CODE_ENDINGS = {".h", ".cpp", ".cuh", ".c", ".py", ".sh"}


def check(function):
    CHECKS.append(function)
    return function


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def project_files():
    """Files that belong to the project: what git tracks or would, without git what is there."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        listed = output_of("git", "-C", str(ROOT), "-c", "safe.directory=*", "ls-files", "-co",
                           "--exclude-standard").splitlines()
        return [ROOT / name for name in listed if (ROOT / name).is_file()]
    skipped = {"build", "out", ".venv", "__pycache__", ".git"}
    return [path for path in ROOT.rglob("*")
            if path.is_file() and not skipped & set(path.relative_to(ROOT).parts)]


FILES = sorted(project_files())


def relative(path):
    return str(path.relative_to(ROOT))


# --- files -------------------------------------------------------------------------------------

@check
def every_source_begins_with_its_licence():
    for path in FILES:
        if path.suffix not in SOURCE_ENDINGS and path.name not in SOURCE_NAMES:
            continue
        lines = path.read_text().splitlines()[:2]
        if lines and lines[0].startswith("#!"):
            lines = lines[1:]
        if not lines or "SPDX-License-Identifier: BSD-3-Clause" not in lines[0]:
            yield f"{relative(path)} does not begin with the SPDX line"


@check
def no_file_is_longer_than_500_lines():
    for path in FILES:
        if path.suffix in CODE_ENDINGS:
            count = len(path.read_text().splitlines())
            if count > 500:
                yield f"{relative(path)} has {count} lines"


@check
def no_file_names_a_path_of_one_machine():
    private = re.compile("|".join("/" + folder + "/" for folder in ("work", "root", "home")) +
                         r"|/tmp/[a-z]|\.\./shared")
    for path in FILES:
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if path == pathlib.Path(__file__).resolve():
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if private.search(line):
                yield f"{relative(path)}:{number} names {private.search(line).group()}"


@check
def links_in_the_documentation_lead_somewhere():
    for path in FILES:
        if path.suffix != ".md":
            continue
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            if "://" not in target and not (path.parent / target).exists():
                yield f"{relative(path)} links to {target}, which is not there"


@check
def the_readme_shows_the_example_as_it_is():
    example = (ROOT / "examples" / "attention.cpp").read_text().split("\n", 1)[1]
    if f"```cpp\n{example}```" not in (ROOT / "README.md").read_text():
        yield "README.md differs from examples/attention.cpp"


# --- includes ----------------------------------------------------------------------------------

# Folder of src/ -> what it may include: a folder, or one header of it. <fa4/...> is open to all.
LAYERS = {
    "core": ["core/", "cpu/plan.h", "gpu/plan.h", "gpu/workspace.h"],
    "cpu": ["cpu/", "core/", "hwy/"],
    "gpu": ["gpu/", "core/", "emulator/emulator.h", "emulator/tensor_map.h"],
    "capi": ["capi/"],
    "emulator": ["emulator/", "core/", "hwy/"],
    "oracle": ["oracle/"],
    "model": ["model/"],
    "cli": ["cli/", "gpu/", "emulator/emulator.h", "emulator/tensor_map.h", "model/", "oracle/",
            "hwy/"],
}


@check
def folders_include_only_what_lies_below_them():
    for path in FILES:
        parts = path.relative_to(ROOT).parts
        if parts[0] not in ("src", "include") or path.suffix not in (".h", ".cpp"):
            continue
        allowed = LAYERS.get(parts[1], [parts[1] + "/"]) if parts[0] == "src" else []
        for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE):
            if not any(name == a or (a.endswith("/") and name.startswith(a)) for a in allowed):
                yield f"{relative(path)} includes {name}; allowed: {', '.join(allowed) or 'none'}"


def compile_alone(header, compiler, *flags):
    """Compiles a file that includes the header alone; returns the files it depends on."""
    with tempfile.TemporaryDirectory() as folder:
        ending = ".c" if "-std=c11" in flags else ".cpp"
        source = pathlib.Path(folder) / ("alone" + ending)
        source.write_text(f"#include <fa4/{header}>\n#include <fa4/{header}>\n"
                          "int unit(void);\nint unit(void) { return 0; }\n")
        return output_of(compiler, *flags, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-M",
                         f"-I{ROOT}/include", f"-I{BUILD}/include", str(source))


PUBLIC_HEADERS = sorted({p.name for p in FILES if relative(p).startswith("include/fa4/")
                         and p.suffix == ".h"} | {"version.h"})
CXX = os.environ.get("CXX", "c++")
CC = os.environ.get("CC", "cc")


@check
def public_headers_stand_alone_and_need_no_cuda_torch_or_python():
    for header in PUBLIC_HEADERS:
        try:
            files = compile_alone(header, CXX, "-std=c++20").replace("\\\n", " ").split()
        except subprocess.CalledProcessError as error:
            yield f"{header} does not compile alone: {error.stderr.splitlines()[0]}"
            continue
        for name in files:
            if re.search(r"cuda|torch|python|nvrtc|hwy|tbb", name.replace(str(ROOT), ""), re.I):
                yield f"{header} includes {name}"


@check
def the_c_header_is_c11():
    try:
        compile_alone("fa4.h", CC, "-std=c11")
    except subprocess.CalledProcessError as error:
        yield error.stderr.splitlines()[0]


# --- the library's symbols ---------------------------------------------------------------------

# Functions of the C library that the library may call. None of them prints or ends the process.
LIBC = """
    memchr memcmp memcpy memmove memset strcmp strlen
    malloc free calloc realloc aligned_alloc posix_memalign
    getenv secure_getenv sched_getaffinity __sched_cpucount sysconf
    exp exp2 exp2f expf log log2 log2f logf sinf cosf nextafter tanh tanhf ilogb ilogbf ldexp ldexpf frexp sqrt sqrtf pow round lround
    nearbyint nearbyintf rint floor ceil fma fmaf fmod fmodf fmaxf fminf fmax fmin hypot
    clock_gettime strtol __isoc23_strtol snprintf
    dlopen dlsym dlerror
    mkostemp open write close fsync rename unlink access fstat flock dlinfo
    syscall __errno_location sched_yield
    __tls_get_addr __libc_single_threaded
    pthread_mutex_lock pthread_mutex_unlock pthread_once
    __memcpy_chk __memmove_chk __memset_chk __snprintf_chk
    _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable __gmon_start__
    __stack_chk_fail __fixdfti __floattidf __floattisf __popcountdi2
""".split()
# The last six lines are the compiler's own and the C++ runtime's: waiting for an atomic (a futex),
# thread-local variables, mutexes and reference counts, hardened copies (which end the process only
# where memory is already overrun), start-up code.

# Mangled names of the C++ runtime, oneTBB and Highway.
RUNTIMES = re.compile(r"_Z(N(K|V|O)*S|S|T[ISTV](S|NSt|N10__cxxabiv1)|n[wa]|d[la])|__cxa_|__gxx_personality"
                      r"|_Unwind_Resume|_ZN(K?)3tbb|_ZT[ISV]N3tbb|_ZN(K?)3hwy")

# Of those, what prints or ends the process. std::terminate is not here: the compiler calls it where
# an exception would leave a noexcept function, which is what destructors and thread bodies are;
# the fuzzer's and the C interface's tests show that none does. Nor is tbb's assertion_failure: its
# headers check their own state in inline code that calls it.
FORBIDDEN = re.compile(r"_ZSt4(cout|cerr|clog)|_ZSt3cin|_ZNSt8ios_base4Init|_ZN3hwy5Abort"
                       r"|_ZSt13set_terminate")


def symbols(*flags):
    lines = output_of("nm", "-D", *flags, str(LIBRARY)).splitlines()
    return [line.split()[-1].split("@")[0] for line in lines]


@check
def the_library_neither_prints_nor_ends_the_process():
    for name in symbols("--undefined-only"):
        if FORBIDDEN.match(name) or not (name in LIBC or RUNTIMES.match(name)):
            yield f"it refers to {output_of('c++filt', name).strip()} ({name})"


@check
def the_library_exports_its_list_and_no_more():
    text = (ROOT / "src" / "exports.map").read_text()
    listed = set(re.findall(r'"(fa4::[^\n]+)";', text))
    listed |= set(re.findall(r"^\s*(fa4_[a-z_]+);", text, re.MULTILINE))
    exported = set(output_of("c++filt", *symbols("--defined-only")).splitlines())
    for name in sorted(listed - exported):
        yield f"exports.map lists {name}, which the library lacks"
    for name in sorted(exported - listed):
        yield f"the library exports {name}, which exports.map does not list"


@check
def the_c_header_declares_what_the_library_exports():
    text = (ROOT / "include" / "fa4" / "fa4.h").read_text()
    inline = set(re.findall(r"static inline \w+ (fa4_\w+)\(", text))
    declared = set(re.findall(r"^[a-z].*?\*? ?\b(fa4_[a-z_]+)\(", text, re.MULTILINE)) - inline
    exported = {name for name in symbols("--defined-only") if name.startswith("fa4_")}
    for name in sorted(declared ^ exported):
        yield f"{name} is only {'declared' if name in declared else 'exported'}"


@check
def the_library_links_highway_tbb_and_the_runtime_alone():
    dynamic = output_of("readelf", "-d", str(LIBRARY))
    allowed = re.compile(r"lib(hwy|tbb|stdc\+\+|m|gcc_s|c|pthread)\.so|ld-linux")
    for name in re.findall(r"NEEDED.*\[(.*)\]", dynamic):
        if not allowed.match(name):
            yield f"it links {name}"
    if "RUNPATH" in dynamic or "RPATH" in dynamic:
        yield "it has a run path"
    version = re.search(r"project\(fa4cpp VERSION (\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text())
    if f"[libfa4cpp.so.{version.group(1)}]" not in dynamic:
        yield f"its soname does not end in {version.group(1)}"


def main():
    failures = 0
    for function in CHECKS:
        name = function.__name__.replace("_", " ")
        complaints = list(function())
        failures += len(complaints)
        for complaint in complaints:
            print(f"FAIL {name}: {complaint}")
        if not complaints:
            print(f"PASS {name}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
