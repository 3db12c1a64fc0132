# SPDX-License-Identifier: BSD-3-Clause
# Parts of another build, FA4_BORROW_FROM, linked instead of compiled again. So a build with sanitizers
# compiles the library alone: what tests it is not under test.

# The static library of that name, in that folder of the other build.
function(fa4_borrow_library name folder)
  add_library(${name} STATIC IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES
    IMPORTED_LOCATION ${FA4_BORROW_FROM}/${folder}/lib${name}.a)
endfunction()

# The object library of that name, in that folder; its sources as paths from there. `group`: what they
# are compiled as together, if the other build does that; or "".
function(fa4_borrow_objects name folder group)
  load_cache(${FA4_BORROW_FROM} READ_WITH_PREFIX other_ CMAKE_UNITY_BUILD)
  if(group AND other_CMAKE_UNITY_BUILD)
    set(ARGN Unity/unity_${group}_cxx.cxx)
  endif()
  set(objects)
  foreach(source ${ARGN})
    list(APPEND objects
      ${FA4_BORROW_FROM}/${folder}/CMakeFiles/${name}.dir/${source}${CMAKE_CXX_OUTPUT_EXTENSION})
  endforeach()
  add_library(${name} OBJECT IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_OBJECTS "${objects}")
endfunction()
