// Shared by the files of the jail; what dice_jail_prepare leaves for the
// children.
#ifndef DICE_EVALUATOR_SANDBOX_JAIL_STATE_H_
#define DICE_EVALUATOR_SANDBOX_JAIL_STATE_H_

#include <linux/filter.h>

#include <string>
#include <vector>

#include "evaluator/sandbox/jail.h"

namespace dice {

struct JailState {
  int level = 0;
  // Not root: one user id is all there is, and every child keeps it.
  bool one_uid = false;
  std::string root;                     // the tree that children pivot into
  std::vector<std::string> readable;    // paths, for Landlock below FULL
  std::vector<sock_filter> filters[3];  // by role
};
JailState& Jail();

// "what path: errno's text" into `error`; false.
bool JailFail(char* error, int size, const char* what, const char* path = "");

// In the zygote: mount and user namespaces of its own, and the read-only tree
// at Jail().root.
bool BuildTree(char* error, int size);
// In a child: null, or the step that failed.
const char* EnterTree();
const char* LimitAndDrop(const dice_jail_limits& limits);
// No file but the readable ones, none written but below /tmp and /dev. Null
// also where the kernel has no Landlock.
const char* RestrictFiles();
bool HasLandlock();

}  // namespace dice

#endif  // DICE_EVALUATOR_SANDBOX_JAIL_STATE_H_
