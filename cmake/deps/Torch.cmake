# LibTorch from the pinned Python wheel. find_package(Torch) is not used: it
# needs the CUDA language to configure and puts the wheel's own old protobuf
# headers on the include path. We give targets a folder of links to everything
# in torch/include except google/.
if(NOT DICE_WITH_TORCH)
  return()
endif()
execute_process(
  COMMAND ${DICE_PYTHON} -c
    "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"
  OUTPUT_VARIABLE dice_torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE dice_torch_rc ERROR_QUIET)
if(NOT dice_torch_rc EQUAL 0)
  message(FATAL_ERROR
    "No torch in ${DICE_PYTHON}. Run `./dev setup`, or pass -DDICE_PYTHON=<python with torch 2.11>.")
endif()
set(dice_torch_inc ${CMAKE_BINARY_DIR}/torch_include)
file(MAKE_DIRECTORY ${dice_torch_inc})
file(GLOB entries RELATIVE ${dice_torch_dir}/include ${dice_torch_dir}/include/*)
foreach(e IN LISTS entries)
  if(NOT e STREQUAL "google")
    file(CREATE_LINK ${dice_torch_dir}/include/${e} ${dice_torch_inc}/${e} SYMBOLIC)
  endif()
endforeach()

# libstdc++ comes first: libtorch.so exports a broken part of std::filesystem
# (remove_all jumps to address 0), which must not win the symbol lookup.
add_library(dice_torch INTERFACE)
target_include_directories(dice_torch SYSTEM INTERFACE
  ${dice_torch_inc} ${dice_torch_inc}/torch/csrc/api/include)
# gloo's headers are Debian's (libgloo-dev); its code is inside libtorch_cpu.
target_compile_definitions(dice_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_link_directories(dice_torch INTERFACE ${dice_torch_dir}/lib)
target_link_options(dice_torch INTERFACE "LINKER:-rpath,${dice_torch_dir}/lib"
  "LINKER:--disable-new-dtags")
target_link_libraries(dice_torch INTERFACE
  "-Wl,--no-as-needed" stdc++ torch torch_cpu c10 "-Wl,--as-needed")
add_library(dice::torch ALIAS dice_torch)
