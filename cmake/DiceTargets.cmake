# The only way targets are made. NAME is folder_file style; the alias
# dice::NAME is what others depend on.
#
#   dice_cc_library(NAME n HDRS .. SRCS .. DEPS .. [PCH torch|grpc])
#   dice_cc_binary(NAME n OUTPUT file SRCS .. DEPS .. [PCH ..])
#   dice_cc_test(NAME n SRCS .. DEPS .. LABELS unit|integration|sandbox|gpu|slow
#                [PCH ..] [TIMEOUT seconds])
#
# PCH torch|grpc reuses one precompiled header for all targets of that kind;
# a torch unit drops from 25 s to a few seconds.
include(GoogleTest)

function(_dice_common target pch)
  target_link_libraries(${target} PRIVATE dice_warnings)
  if(pch)
    target_precompile_headers(${target} REUSE_FROM dice_${pch}_pch)
    if(pch STREQUAL "torch")
      set_target_properties(${target} PROPERTIES JOB_POOL_COMPILE heavy)
    endif()
  endif()
endfunction()

function(dice_cc_library)
  cmake_parse_arguments(A "" "NAME;PCH" "HDRS;SRCS;DEPS" ${ARGN})
  if(A_SRCS)
    add_library(dice_${A_NAME} STATIC ${A_SRCS} ${A_HDRS})
    target_link_libraries(dice_${A_NAME} PUBLIC dice_options ${A_DEPS})
    _dice_common(dice_${A_NAME} "${A_PCH}")
  else()
    add_library(dice_${A_NAME} INTERFACE)
    target_link_libraries(dice_${A_NAME} INTERFACE dice_options ${A_DEPS})
  endif()
  add_library(dice::${A_NAME} ALIAS dice_${A_NAME})
endfunction()

function(dice_cc_binary)
  cmake_parse_arguments(A "" "NAME;OUTPUT;PCH" "SRCS;DEPS" ${ARGN})
  add_executable(dice_${A_NAME} ${A_SRCS})
  target_link_libraries(dice_${A_NAME} PRIVATE dice_options ${A_DEPS})
  _dice_common(dice_${A_NAME} "${A_PCH}")
  if(A_OUTPUT)
    set_target_properties(dice_${A_NAME} PROPERTIES OUTPUT_NAME ${A_OUTPUT})
  endif()
endfunction()

function(dice_cc_test)
  cmake_parse_arguments(A "" "NAME;PCH;TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  add_executable(${A_NAME} ${A_SRCS})
  target_link_libraries(${A_NAME} PRIVATE dice_options ${A_DEPS}
    dice_test_main)
  _dice_common(${A_NAME} "${A_PCH}")
  string(REPLACE ";" "\\;" labels "${A_LABELS}")
  gtest_discover_tests(${A_NAME}
    DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${labels}" TIMEOUT ${A_TIMEOUT})
endfunction()
