# SPDX-License-Identifier: BSD-3-Clause
"""A compiler launcher that takes an object file from another build, where that build made it from the
same source by the same command. All else it compiles.

    share_objects.py OTHER_BUILD THIS_BUILD LOG COMPILER ARGUMENTS...

The same command: but for the two builds' folders, -Werror, and where output goes. Files that the
builds generated must have the same bytes. LOG gets "shared FILE" or "compiled FILE" for each.
"""
import filecmp
import json
import pathlib
import shlex
import shutil
import subprocess
import sys

OTHER, THIS, LOG = sys.argv[1:4]
COMMAND = sys.argv[4:]
GENERATED = ["include/fa4/version.h"]  # beside what commands name


def essence(command, build):
    """A command's arguments without those that may differ."""
    kept = []
    skip = False
    for argument in command:
        if skip or argument in {"-Werror", "-MD"}:
            skip = False
        elif argument in {"-MT", "-MF", "-o"}:
            skip = True
        else:
            kept.append(argument.replace(build, "BUILD"))
    return kept


def after(command, option):
    return command[command.index(option) + 1]


def same_generated_files(arguments):
    """Whether the generated files that the arguments name have the same bytes in both builds."""
    names = [a.removeprefix("BUILD/") for a in arguments if a.startswith("BUILD/")]
    return all(filecmp.cmp(f"{OTHER}/{name}", f"{THIS}/{name}", shallow=False)
               for name in names + GENERATED)


def shared_object():
    """The other build's object file for this command, or None."""
    wanted = essence(COMMAND, THIS)
    for entry in json.loads(pathlib.Path(OTHER, "compile_commands.json").read_text()):
        command = shlex.split(entry["command"])
        if COMMAND[0] not in command:
            continue
        command = command[command.index(COMMAND[0]):]  # without a launcher of its own
        if essence(command, OTHER) == wanted and same_generated_files(wanted):
            return pathlib.Path(entry["directory"], after(command, "-o"))
    return None


def main():
    source = after(COMMAND, "-c")
    found = shared_object()
    with open(LOG, "a", encoding="utf-8") as log:
        log.write(f"{'shared' if found else 'compiled'} {source}\n")
    if found is None:
        return subprocess.run(COMMAND, check=False).returncode
    target = after(COMMAND, "-o")
    shutil.copyfile(found, target)
    pathlib.Path(after(COMMAND, "-MF")).write_text(f"{target}: {source}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
