#include "evaluator/worker/judge_places.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace dice {
namespace {

namespace fs = std::filesystem;

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<std::string> FirstExisting(
    const char* what, const std::vector<std::string>& choices,
    const char* suffix = "") {
  for (const std::string& c : choices) {
    std::error_code ec;
    if (!c.empty() && fs::exists(c + suffix, ec)) return c;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      what, " not found; looked at: ", absl::StrJoin(choices, ", ")));
}

// Every file that a verdict depends on.
absl::StatusOr<std::string> HashHarness(const std::string& dir) {
  std::vector<std::string> files;
  for (const char* part : {"oracle", "runner", "emulate"}) {
    std::error_code ec;
    for (const auto& e :
         fs::recursive_directory_iterator(dir + "/evaluator/" + part, ec)) {
      const std::string ext = e.path().extension();
      if (e.is_regular_file() && (ext == ".py" || ext == ".h")) {
        files.push_back(e.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  std::string all;
  for (const std::string& f : files) {
    DICE_ASSIGN_OR_RETURN(const std::string text, ReadFile(f));
    absl::StrAppend(&all, f.substr(dir.size()), ":", Sha256Hex(text), "\n");
  }
  return Sha256Hex(all).substr(0, 16);
}

}  // namespace

absl::StatusOr<JudgePlaces> FindJudgePlaces(const std::string& python,
                                            const std::string& harness_dir) {
  JudgePlaces p;
  const std::string here = ExecutableDir();
  DICE_ASSIGN_OR_RETURN(
      p.python, FirstExisting("a Python with torch (run ./dev setup, or set "
                              "DICE_PYTHON)",
                              {python, FromEnvironment("DICE_PYTHON"),
                               DICE_BUILT_IN_PYTHON}));
  DICE_ASSIGN_OR_RETURN(
      p.harness_dir,
      FirstExisting("the judge's harness (set DICE_HARNESS_DIR)",
                    {harness_dir, FromEnvironment("DICE_HARNESS_DIR"),
                     here + "/../share", DICE_BUILT_IN_SOURCE_DIR},
                    "/evaluator/runner/zygote.py"));
  p.harness_dir = fs::canonical(p.harness_dir);
  DICE_ASSIGN_OR_RETURN(
      p.jail_library,
      FirstExisting("libdice_jail.so",
                    {here + "/libdice_jail.so",
                     std::string(DICE_BUILT_IN_BUILD_DIR) +
                         "/evaluator/sandbox/libdice_jail.so"}));
  const std::string cache = FromEnvironment("XDG_CACHE_HOME");
  const std::string home = FromEnvironment("HOME");
  p.default_cache_dir =
      cache.empty() ? (home.empty() ? "/tmp" : home + "/.cache") : cache;
  p.default_cache_dir += "/dice/compile";
  DICE_ASSIGN_OR_RETURN(p.harness_version, HashHarness(p.harness_dir));
  return p;
}

}  // namespace dice
