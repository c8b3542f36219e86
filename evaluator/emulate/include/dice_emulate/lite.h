// All that a plain kernel with a plain launcher needs, and nothing of the
// standard library: compiles in milliseconds. Anything more: dice_emulate.h.
#ifndef DICE_EMULATE_LITE_H_
#define DICE_EMULATE_LITE_H_

#include "collectives.h"
#include "entry.h"
#include "intrinsics.h"
#include "launch.h"
#include "torch_names.h"

#endif  // DICE_EMULATE_LITE_H_
