# SPDX-License-Identifier: BSD-3-Clause
# Writes a C++ file that holds every file of device/ as bytes.
# Run as: cmake -D FOLDER=... -D OUTPUT=... -P EmbedDevice.cmake
file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/*.cuh)
list(SORT files)

set(arrays "")
set(table "")
set(digest "")
set(index 0)
string(REPEAT "." 100 line)  # 20 bytes of "0x2f,"
foreach(name IN LISTS files)
  file(READ ${FOLDER}/${name} bytes HEX)
  file(SHA256 ${FOLDER}/${name} hash)
  string(APPEND digest "${name} ${hash}\n")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
  string(APPEND arrays "// ${name}\nconstexpr char kFile${index}[] = {${bytes}0x00};\n")
  string(APPEND table "    {\"${name}\", kFile${index}},\n")
  math(EXPR index "${index} + 1")
endforeach()
string(SHA256 digest "${digest}")

file(WRITE ${OUTPUT}.new "// Made by cmake/EmbedDevice.cmake from device/.
#include \"gpu/device_sources.h\"

namespace fa4::gpu {
namespace {

${arrays}
constexpr jit::SourceFile kFiles[] = {
${table}};

}  // namespace

std::span<const jit::SourceFile> device_sources() { return kFiles; }
std::string_view device_sources_hash() { return \"${digest}\"; }

}  // namespace fa4::gpu
")
file(RENAME ${OUTPUT}.new ${OUTPUT})
