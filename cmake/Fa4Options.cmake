# SPDX-License-Identifier: BSD-3-Clause
# Compile options that every target of the project shares: link to fa4_options.
add_library(fa4_options INTERFACE)
target_compile_options(fa4_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  $<$<BOOL:${FA4_WERROR}>:-Werror>)

# GCC 13 takes a reference to an element of a static table for a dangling one.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-Wdangling-reference FA4_HAS_DANGLING_REFERENCE)
target_compile_options(fa4_options INTERFACE
  $<$<AND:$<BOOL:${FA4_HAS_DANGLING_REFERENCE}>,$<COMPILE_LANGUAGE:CXX>>:-Wno-dangling-reference>)

# Parsed once, before every source. A source still includes what it uses: builds with sanitizers do
# without this, and so do those that compile many files as one.
set(FA4_PRECOMPILED
  <algorithm> <array> <atomic> <bit> <cmath> <cstddef> <cstdint> <cstring> <functional> <limits>
  <map> <memory> <mutex> <optional> <span> <string> <string_view> <vector>)
function(fa4_precompile target)
  if(NOT CMAKE_UNITY_BUILD)
    target_precompile_headers(${target} PRIVATE ${FA4_PRECOMPILED} ${ARGN})
  endif()
endfunction()
if(FA4_SANITIZE)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
  target_compile_options(fa4_options INTERFACE
    -fsanitize=${FA4_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_compile_definitions(fa4_options INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(fa4_options INTERFACE -fsanitize=${FA4_SANITIZE})
  if(FA4_SANITIZE MATCHES "address")
    # GCC's own documentation: false positives when AddressSanitizer's code is in between.
    target_compile_options(fa4_options INTERFACE -Wno-maybe-uninitialized)
  endif()
  if(FA4_SANITIZE MATCHES "thread")
    # ThreadSanitizer gives false reports inside oneTBB.
    target_compile_definitions(fa4_options INTERFACE FA4_STD_THREADS)
  endif()
else()
  # So that ccache can look into precompiled headers.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()

# With CMAKE_UNITY_BUILD the files of a target are compiled as one, and parse what they include once:
# names in anonymous namespaces must differ within a target. No target takes longer than the CPU's
# micro-kernels, which is one file.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 0)

# Files that Highway includes again for each of its targets, as one: a file that it includes again, and
# that includes them. The header says which targets. Gives the list of what to compile; the target needs
# CMAKE_CURRENT_BINARY_DIR among its include directories.
function(fa4_highway_sources result name targets_header)
  if(NOT CMAKE_UNITY_BUILD)
    set(${result} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(again)
  set(once)
  foreach(source ${ARGN})
    file(STRINGS ${source} includes REGEX "hwy/foreach_target.h" LIMIT_COUNT 1)
    if(includes)
      file(RELATIVE_PATH source ${PROJECT_SOURCE_DIR}/src ${source})
      string(APPEND again "#include \"${source}\"\n")
    else()
      list(APPEND once ${source})
    endif()
  endforeach()
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  # Each of the files says that it is the one to include again; the last word is this one's.
  set(include_again "#undef HWY_TARGET_INCLUDE\n#define HWY_TARGET_INCLUDE \"${name}.cpp\"\n")
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT
    "#include \"${targets_header}\"\n${include_again}#include \"hwy/foreach_target.h\"\n${again}${include_again}")
  set_property(SOURCE ${file} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  set(${result} ${file} ${once} PARENT_SCOPE)
endfunction()

if(FA4_FEW_TARGETS)
  target_compile_definitions(fa4_options INTERFACE FA4_FEW_TARGETS)
endif()

# What results are held against is not under test: with sanitizers in it, it would take most of the
# tests' time. These sources are compiled without, and optimised.
function(fa4_spare_from_sanitizers)
  if(FA4_SANITIZE)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all -O2)
  endif()
endfunction()
