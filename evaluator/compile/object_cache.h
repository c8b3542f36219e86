// Results on disk by content: objects and failures. Shared by processes; a
// result appears whole or not at all.
#ifndef DICE_EVALUATOR_COMPILE_OBJECT_CACHE_H_
#define DICE_EVALUATOR_COMPILE_OBJECT_CACHE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "evaluator/compile/compiler.h"

namespace dice {

class ObjectCache {
 public:
  // `folder` is made when missing.
  explicit ObjectCache(const std::string& folder) : folder_(folder) {}

  // Where the object of `key` lies or will lie.
  std::string ObjectPath(const std::string& key) const;
  std::optional<CompileResult> Find(const std::string& key) const;
  // kOk: `object` (bytes of the shared object) becomes ObjectPath(key), and
  // the stored result names it. INTERNAL or RESOURCE_EXHAUSTED: the disk.
  absl::Status Store(const std::string& key, const CompileResult& result,
                     const std::string& object) const;

 private:
  std::string Base(const std::string& key) const;
  const std::string folder_;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_OBJECT_CACHE_H_
