# SPDX-License-Identifier: BSD-3-Clause
# `cmake --install`: the library, its headers, the program, and what find_package(fa4cpp) and
# pkg-config need. Nothing installed names the place it was installed to.
include(CMakePackageConfigHelpers)

set(FA4_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/fa4cpp)

install(TARGETS fa4cpp EXPORT fa4cppTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fa4 DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/include/fa4/version.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fa4)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT fa4cppTargets NAMESPACE fa4cpp:: DESTINATION ${FA4_CMAKE_DIR})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/fa4cppConfig.cmake.in
  ${PROJECT_BINARY_DIR}/fa4cppConfig.cmake INSTALL_DESTINATION ${FA4_CMAKE_DIR}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fa4cppConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fa4cppConfig.cmake
              ${PROJECT_BINARY_DIR}/fa4cppConfigVersion.cmake
        DESTINATION ${FA4_CMAKE_DIR})

# The .pc file finds its prefix from where it lies.
set(FA4_PC_DIR ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH FA4_PC_PREFIX ${FA4_PC_DIR} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" FA4_PC_PREFIX ${FA4_PC_PREFIX})
file(RELATIVE_PATH FA4_PC_LIBDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH FA4_PC_INCLUDEDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(${PROJECT_SOURCE_DIR}/cmake/fa4cpp.pc.in ${PROJECT_BINARY_DIR}/fa4cpp.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/fa4cpp.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET fa4)
  install(TARGETS fa4)
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/data)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/data/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fa4cpp)
  endif()
endif()
