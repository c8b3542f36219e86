// CUDA C++ of a torch extension for g++ on a CPU: the whole facade. Compiled
// once into a precompiled header; lite.h is its part for plain kernels.
#ifndef DICE_EMULATE_DICE_EMULATE_H_
#define DICE_EMULATE_DICE_EMULATE_H_

#define DICE_EMULATE_STL 1
#include "stl.h"

#include "lite.h"

#include "cuda_api.h"
#include "dispatch.h"
#include "entry_stl.h"
#include "half.h"
#include "torch_stl.h"

#endif  // DICE_EMULATE_DICE_EMULATE_H_
