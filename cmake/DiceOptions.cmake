# Build options and the two INTERFACE targets that carry every flag.
option(DICE_WITH_TORCH "Build the targets that link LibTorch" ON)
option(DICE_BUILD_TESTS "Build the tests" ON)
option(DICE_WERROR "Warnings are errors" ON)
set(DICE_SANITIZER "" CACHE STRING "address (with undefined) | thread | empty")
set(DICE_PYTHON "${CMAKE_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH
    "Python with the pinned torch; `./dev setup` makes it")

find_program(DICE_CCACHE ccache)
if(DICE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DICE_CCACHE})
endif()

# A torch translation unit takes up to 1.5 GB: as many at once as cores.
cmake_host_system_information(RESULT dice_cores QUERY NUMBER_OF_LOGICAL_CORES)
set_property(GLOBAL PROPERTY JOB_POOLS heavy=${dice_cores})

add_library(dice_options INTERFACE)
target_include_directories(dice_options INTERFACE ${CMAKE_SOURCE_DIR})
# -fPIC for executables too: a precompiled header serves one setting only.
target_compile_options(dice_options INTERFACE -fno-omit-frame-pointer -fPIC)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Lets ccache hash a source without its precompiled header.
  target_compile_options(dice_options INTERFACE -fpch-preprocess)
endif()
if(DICE_SANITIZER STREQUAL "address")
  target_compile_options(dice_options INTERFACE -fsanitize=address,undefined)
  target_link_options(dice_options INTERFACE -fsanitize=address,undefined)
elseif(DICE_SANITIZER STREQUAL "thread")
  target_compile_options(dice_options INTERFACE -fsanitize=thread)
  target_link_options(dice_options INTERFACE -fsanitize=thread)
endif()

add_library(dice_warnings INTERFACE)
target_compile_options(dice_warnings INTERFACE
  -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
if(DICE_WERROR)
  target_compile_options(dice_warnings INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(dice_warnings INTERFACE -Wthread-safety)
endif()
