// What the compile box and its client agree on: one JSON object a datagram on a
// SOCK_SEQPACKET socket (fd 3 of the box), descriptors by SCM_RIGHTS.
//
//   -> {"id", "op": "nvrtc", "args": [options], "name", "seconds"}
//      fds: source, log
//   -> {"id", "op": "gxx", "args": [g++ arguments without -o], "seconds"}
//      fds: source (its stdin), log, object
//   <- {"id", "code"}   0 accepted, 1 refused (see log), -1 out of time,
//                       -2 died of a signal or of its limits
//   <- {"ready": level, "text"}   once, at the start
#ifndef DICE_EVALUATOR_COMPILE_BOX_PROTOCOL_H_
#define DICE_EVALUATOR_COMPILE_BOX_PROTOCOL_H_

namespace dice {

enum BoxCode { kBoxAccepted = 0, kBoxRefused = 1, kBoxTimeout = -1, kBoxDied = -2 };

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_BOX_PROTOCOL_H_
