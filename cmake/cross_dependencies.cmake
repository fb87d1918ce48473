# Debian's libfmt-dev and libgtest-dev hold libraries of this machine only. Cross-compiled, their headers in /usr/include
# (which the cross-compiler searches last) serve: fmt header-only, GoogleTest built from the package googletest.
add_library(fmt::fmt INTERFACE IMPORTED)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY=1)
if(FT_TESTS)
  set(INSTALL_GTEST OFF)
  add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  if(NOT TARGET GTest::gmock_main)
    add_library(GTest::gmock_main ALIAS gmock_main)
  endif()
endif()
