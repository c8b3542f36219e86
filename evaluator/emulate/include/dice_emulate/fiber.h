// Where a thread of a block waits for others, in the runtime.
#ifndef DICE_EMULATE_FIBER_H_
#define DICE_EMULATE_FIBER_H_

#include "abi.h"

extern "C" {
// op: 0 = count arrivals, 1 = and, 2 = or, of `predicate` over the block.
DICE_HIDDEN int dice_block_barrier(int op, int predicate);
// Each lane of `mask` gives `value` and receives the one of lane `from`.
DICE_HIDDEN uint64_t dice_exchange(unsigned mask, uint64_t value, int from);
// Bit l of the result: lane l of `mask` gave a true predicate.
DICE_HIDDEN unsigned dice_ballot(unsigned mask, bool predicate);
DICE_HIDDEN unsigned dice_active_mask();
DICE_HIDDEN int dice_lane();
}

#endif  // DICE_EMULATE_FIBER_H_
