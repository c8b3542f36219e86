// Loading and saving of task files (declared in tasks.h).
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/tasks/prompt.h"
#include "common/tasks/tasks.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace dice {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Tasks so far, and what was wrong with the rest.
class Collector {
 public:
  explicit Collector(std::string file) : file_(std::move(file)) {}

  // `where` names the entry: "line 3", "entry 7", a file.
  void Bad(const std::string& where, absl::string_view reason) {
    bad_.push_back(absl::StrCat(file_, " ", where, ": ", reason));
  }
  void Add(const std::string& where, Task task) {
    std::vector<std::string> wrong = TaskViolations(task);
    if (!task.id().empty() && !ids_.insert(task.id()).second) {
      wrong.push_back(absl::StrCat("id '", task.id(), "' occurs twice"));
    }
    for (const std::string& w : wrong) Bad(where, w);
    if (wrong.empty()) tasks_.push_back(std::move(task));
  }
  absl::StatusOr<std::vector<Task>> Finish() && {
    if (bad_.empty() && tasks_.empty()) {
      bad_.push_back(absl::StrCat(file_, ": no tasks"));
    }
    if (bad_.empty()) return std::move(tasks_);
    constexpr size_t kShown = 50;
    const size_t more = bad_.size() - std::min(bad_.size(), kShown);
    bad_.resize(bad_.size() - more);
    std::string text = absl::StrJoin(bad_, "\n");
    if (more > 0) absl::StrAppend(&text, "\nand ", more, " more");
    return absl::InvalidArgumentError(text);
  }

 private:
  const std::string file_;
  std::vector<Task> tasks_;
  std::vector<std::string> bad_;
  std::set<std::string> ids_;
};

absl::StatusOr<std::string> Inflate(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    return absl::NotFoundError(absl::StrCat("opening ", path));
  }
  std::string out;
  char buffer[1 << 16];
  int n;
  while ((n = gzread(file, buffer, sizeof(buffer))) > 0) out.append(buffer, n);
  const bool whole = gzeof(file);
  const int closed = gzclose(file);
  if (n < 0 || !whole || closed != Z_OK) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": damaged or cut short"));
  }
  return out;
}

absl::StatusOr<std::vector<Task>> LoadJsonl(const std::string& path) {
  std::string text;
  if (absl::EndsWith(path, ".gz")) {
    DICE_ASSIGN_OR_RETURN(text, Inflate(path));
  } else {
    DICE_ASSIGN_OR_RETURN(text, ReadFile(path));
  }
  Collector tasks(path);
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    const std::string where = absl::StrCat("line ", number);
    Task task;
    const auto status =
        google::protobuf::util::JsonStringToMessage(std::string(line), &task);
    if (status.ok()) {
      tasks.Add(where, std::move(task));
    } else {
      tasks.Bad(where, status.ToString());
    }
  }
  return std::move(tasks).Finish();
}

// The first of `keys` that `entry` has, as text; numbers count. Empty if none.
std::string Text(const json& entry, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto it = entry.find(key);
    if (it == entry.end() || it->is_null()) continue;
    if (it->is_string()) return it->get<std::string>();
    if (it->is_number_integer()) return absl::StrCat(it->get<int64_t>());
  }
  return "";
}

// "level2", "2" or a path with a component levelN; 0 if none.
int LevelOf(absl::string_view text) {
  const size_t at = text.rfind("level");
  int level = 0;
  if (at != absl::string_view::npos) {
    text.remove_prefix(at + 5);
    text = text.substr(0, text.find_first_not_of("0123456789"));
  }
  return absl::SimpleAtoi(text, &level) ? level : 0;
}

void FillPrompts(Task* task) {
  task->set_prompt(EndToEndPrompt(task->reference_source()));
  if (task->has_scaffold()) {
    task->set_infill_prompt(
        InfillPrompt(task->reference_source(), task->scaffold()));
  }
}

Task FromListEntry(const json& entry, const std::string& stem, size_t index) {
  Task task;
  task.set_reference_source(Text(entry, {"pytorch_code", "code"}));
  const std::string level = Text(entry, {"level"});
  task.set_level(LevelOf(level.empty() ? stem : level));
  task.set_family(Text(entry, {"name"}));
  std::string key = Text(entry, {"problem_id", "id", "idx"});
  if (key.empty()) key = absl::StrCat(index);
  task.set_id(absl::StrCat(stem, "/", key));
  if (const std::string code = Text(entry, {"cuda_code"}); !code.empty()) {
    Solution& s = *task.add_solutions();
    s.set_response(absl::StrCat(
        "```python\n", code, absl::EndsWith(code, "\n") ? "" : "\n", "```\n"));
    s.set_quality("good");
  }
  if (entry.contains("middle")) {
    Scaffold& s = *task.mutable_scaffold();
    s.set_prefix(Text(entry, {"prefix"}));
    s.set_middle(Text(entry, {"middle"}));
    s.set_suffix(Text(entry, {"suffix"}));
  }
  FillPrompts(&task);
  return task;
}

absl::StatusOr<std::vector<Task>> LoadList(const std::string& path) {
  DICE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const json list = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a JSON list of tasks"));
  }
  Collector tasks(path);
  const std::string stem = fs::path(path).stem().string();
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = absl::StrCat("entry ", i);
    if (!list[i].is_object()) {
      tasks.Bad(where, "not an object");
      continue;
    }
    Task task = FromListEntry(list[i], stem, i);
    const std::string code = Text(list[i], {"cuda_code"});
    if (task.has_scaffold() && !code.empty() &&
        absl::StrCat(task.scaffold().prefix(), task.scaffold().middle(),
                     task.scaffold().suffix()) != code) {
      tasks.Bad(where, "prefix + middle + suffix is not cuda_code");
      continue;
    }
    tasks.Add(where, std::move(task));
  }
  return std::move(tasks).Finish();
}

absl::StatusOr<Task> FromPythonFile(const fs::path& path) {
  Task task;
  DICE_ASSIGN_OR_RETURN(*task.mutable_reference_source(),
                        ReadFile(path.string()));
  const std::string folder = path.parent_path().filename().string();
  task.set_level(absl::StartsWith(folder, "level") ? LevelOf(folder) : 0);
  task.set_id(task.level() > 0 ? absl::StrCat(folder, "/", path.stem().string())
                               : path.stem().string());
  // 23_Softmax -> Softmax
  const std::string stem = path.stem().string();
  const size_t name = stem.find_first_not_of("0123456789_");
  task.set_family(name == std::string::npos ? stem : stem.substr(name));
  FillPrompts(&task);
  return task;
}

// 2_x before 10_x, as their numbers say.
std::pair<int, std::string> PythonOrder(const fs::path& path) {
  int number = 0;
  const std::string stem = path.stem().string();
  (void)absl::SimpleAtoi(stem.substr(0, stem.find_first_not_of("0123456789")),
                         &number);
  return {number, stem};
}

absl::StatusOr<std::vector<Task>> LoadPython(const std::string& path) {
  std::vector<fs::path> files;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (const auto& entry : fs::recursive_directory_iterator(path, error)) {
      if (entry.path().extension() == ".py") files.push_back(entry.path());
    }
  } else {
    files.push_back(path);
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) {
    return std::pair(a.parent_path(), PythonOrder(a)) <
           std::pair(b.parent_path(), PythonOrder(b));
  });
  Collector tasks(path);
  for (const fs::path& file : files) {
    absl::StatusOr<Task> task = FromPythonFile(file);
    if (task.ok()) {
      tasks.Add(file.string(), *std::move(task));
    } else {
      tasks.Bad(file.string(), task.status().message());
    }
  }
  return std::move(tasks).Finish();
}

}  // namespace

absl::StatusOr<std::vector<Task>> LoadTasks(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat("no task file ", path));
  }
  if (fs::is_directory(path, error) || absl::EndsWith(path, ".py")) {
    return LoadPython(path);
  }
  if (absl::EndsWith(path, ".jsonl") || absl::EndsWith(path, ".jsonl.gz")) {
    return LoadJsonl(path);
  }
  if (absl::EndsWith(path, ".json")) return LoadList(path);
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": not a task file (.jsonl, .jsonl.gz, .json, .py or a folder)"));
}

absl::Status SaveTasksJsonl(const std::string& path,
                            const std::vector<Task>& tasks) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string out;
  for (const Task& task : tasks) {
    const auto status =
        google::protobuf::util::MessageToJsonString(task, &out, options);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("task ", task.id(), ": ", status.ToString()));
    }
    out += '\n';
  }
  return WriteFileAtomic(path, out);
}

}  // namespace dice
