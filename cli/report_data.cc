#include "cli/report_data.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/config/config.h"
#include "common/tasks/tasks.h"

namespace dice::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kBestShown = 6;
constexpr const char* kJudgeStages[] = {"queue", "parse",       "compile",
                                        "load",  "correctness", "timing"};

// Of a member that may be absent or of another type.
std::string TextOf(const Json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_string() ? it->get<std::string>() : "";
}
double NumberOf(const Json& j, const char* key) {
  const auto it = j.find(key);
  if (it == j.end()) return 0;
  if (it->is_number()) return it->get<double>();
  // protobuf's JSON writes 64-bit integers as strings.
  return it->is_string() ? std::strtod(it->get<std::string>().c_str(), nullptr)
                         : 0;
}

// Calls `use` for each line that is a JSON object; returns how many were not.
template <typename Use>
int ForEachLine(const std::string& path, Use&& use) {
  std::ifstream in(path);
  std::string line;
  int bad = 0;
  while (std::getline(in, line)) {
    if (line.empty()) continue;
    const Json j = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (j.is_object()) {
      use(j);
    } else {
      ++bad;
    }
  }
  return bad;
}

struct Best {
  double certain = 0;  // lower end of the speedup
  Json rollout;        // task_id, text, verdict, stage, step
};

struct EvaluationCount {
  double correct[2] = {0, 0}, samples[2] = {0, 0};  // before, after RL
  int tasks = 0;
};

// Everything that rollouts/*.jsonl tell.
class RolloutReader {
 public:
  explicit RolloutReader(const std::map<std::string, Task>& tasks)
      : tasks_(tasks) {}

  void Add(const Json& r) {
    const std::string stage = TextOf(r, "stage");
    const auto it = r.find("verdict");
    const bool judged = it != r.end() && it->is_object();
    const std::string outcome = judged ? TextOf(*it, "outcome") : "LOST";
    if (judged) AddVerdict(*it);
    if (absl::StartsWith(stage, "evaluation")) {
      AddEvaluation(r, stage, outcome);
      return;
    }
    ++outcomes_[{stage, static_cast<int64_t>(NumberOf(r, "step"))}][outcome];
    if (outcome == "CORRECT") Consider(r, *it);
  }

  void Finish(Json* out) {
    for (const auto& [key, counts] : outcomes_) {
      (*out)["outcomes"].push_back(
          {{"stage", key.first}, {"step", key.second}, {"counts", counts}});
    }
    Json stage_s = Json::object();
    for (const char* s : kJudgeStages) {
      stage_s[s] = fresh_ > 0 ? seconds_[s] / fresh_ : 0.0;
    }
    (*out)["judge"] = {{"evaluations", evaluations_},
                       {"cached", evaluations_ - fresh_},
                       {"stage_s", stage_s}};
    for (const auto& [family, c] : families_) {
      if (c.samples[0] == 0 || c.samples[1] == 0) continue;
      (*out)["families"].push_back(
          {{"family", family},
           {"correct_sft", c.correct[0] / c.samples[0]},
           {"correct_final", c.correct[1] / c.samples[1]}});
    }
    AddBest(out);
    (*out)["device"] = device_;
  }

 private:
  void AddVerdict(const Json& v) {
    ++evaluations_;
    if (device_.empty()) device_ = TextOf(v, "device");
    const auto cached = v.find("cached");
    if (cached != v.end() && *cached == true) return;
    ++fresh_;
    const auto it = v.find("stage_s");
    if (it == v.end() || !it->is_object()) return;
    for (const char* s : kJudgeStages) seconds_[s] += NumberOf(*it, s);
  }

  void AddEvaluation(const Json& r, const std::string& stage,
                     const std::string& outcome) {
    const auto task = tasks_.find(TextOf(r, "task_id"));
    if (outcome == "LOST" || task == tasks_.end() ||
        task->second.split() != "heldout") {
      return;
    }
    const int after = absl::EndsWith(stage, "final") ? 1 : 0;
    EvaluationCount& c = families_[task->second.family()];
    c.correct[after] += outcome == "CORRECT";
    c.samples[after] += 1;
  }

  void Consider(const Json& r, const Json& verdict) {
    double certain = NumberOf(verdict, "speedup_lo");
    if (certain <= 0) certain = NumberOf(verdict, "speedup");
    if (certain <= 0) return;
    Best& best = best_[TextOf(r, "task_id")];
    if (certain <= best.certain) return;
    best.certain = certain;
    best.rollout = {{"task", TextOf(r, "task_id")},
                    {"kernel", TextOf(r, "text")},
                    {"speedup", NumberOf(verdict, "speedup")},
                    {"speedup_lo", NumberOf(verdict, "speedup_lo")},
                    {"speedup_hi", NumberOf(verdict, "speedup_hi")},
                    {"basis", TextOf(verdict, "speedup_basis")},
                    {"stage", TextOf(r, "stage")},
                    {"step", NumberOf(r, "step")}};
  }

  void AddBest(Json* out) {
    std::vector<Best> ranked;
    for (auto& [task, best] : best_) ranked.push_back(std::move(best));
    std::stable_sort(
        ranked.begin(), ranked.end(),
        [](const Best& a, const Best& b) { return a.certain > b.certain; });
    std::map<std::string, int> shown;  // per family, so that they differ
    for (const Best& best : ranked) {
      if ((*out)["best"].size() == kBestShown) return;
      Json kernel = best.rollout;
      const auto it = tasks_.find(TextOf(kernel, "task"));
      if (it != tasks_.end()) {
        const Task& task = it->second;
        if (++shown[task.family()] > 1) continue;
        kernel["prompt"] = task.prompt();
        kernel["reference"] = task.reference_source();
        kernel["naive"] = task.naive_response();
      }
      (*out)["best"].push_back(std::move(kernel));
    }
  }

  const std::map<std::string, Task>& tasks_;
  std::map<std::pair<std::string, int64_t>, std::map<std::string, int>>
      outcomes_;
  std::map<std::string, EvaluationCount> families_;
  std::map<std::string, Best> best_;  // by task
  std::map<std::string, double> seconds_;
  std::string device_;
  int64_t evaluations_ = 0, fresh_ = 0;
};

// The tasks of the run by id; a note where they cannot be had any more.
std::map<std::string, Task> RunTasks(const std::string& run_dir, Json* notes) {
  std::map<std::string, Task> out;
  const auto config = LoadConfig(JoinPath(run_dir, "config.pbtxt"));
  if (!config.ok()) {
    notes->push_back(absl::StrCat("without the tasks' references: ",
                                  config.status().message()));
    return out;
  }
  for (const std::string& path :
       {config->tasks().train_path(), config->tasks().heldout_path()}) {
    if (path.empty()) continue;
    auto tasks = LoadTasks(path);
    if (!tasks.ok()) {
      notes->push_back(absl::StrCat("without the tasks of ", path));
      continue;
    }
    for (Task& task : *tasks) out[task.id()] = std::move(task);
  }
  return out;
}

void ReadRollouts(const std::string& folder, RolloutReader* reader,
                  Json* notes) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  int bad = 0;
  for (const fs::path& file : files) {
    bad += ForEachLine(file.string(), [&](const Json& r) { reader->Add(r); });
  }
  if (files.empty()) notes->push_back("no rollouts: no outcomes, no kernels");
  if (bad > 0) notes->push_back(absl::StrCat(bad, " rollouts are unreadable"));
}

}  // namespace

absl::StatusOr<Json> GatherReport(const std::string& run_dir) {
  std::error_code error;
  if (!fs::is_directory(run_dir, error)) {
    return absl::NotFoundError(absl::StrCat("no run folder ", run_dir));
  }
  Json out = {
      {"name", fs::path(run_dir).lexically_normal().filename().string()},
      {"device", ""},
      {"notes", Json::array()},
      {"steps", Json::array()},
      {"outcomes", Json::array()},
      {"judge", nullptr},
      {"families", Json::array()},
      {"best", Json::array()},
      {"summary", nullptr}};
  Json notes = Json::array();
  const int bad =
      ForEachLine(JoinPath(run_dir, "metrics.jsonl"),
                  [&](const Json& j) { out["steps"].push_back(j); });
  if (bad > 0) {
    notes.push_back(
        absl::StrCat(bad, " lines of metrics.jsonl are unreadable"));
  }
  const auto summary = ReadFile(JoinPath(run_dir, "summary.json"));
  if (summary.ok()) {
    out["summary"] = Json::parse(*summary, nullptr, /*allow_exceptions=*/false);
    if (!out["summary"].is_object()) {
      out["summary"] = nullptr;
      notes.push_back("summary.json is unreadable");
    }
  } else {
    notes.push_back("no summary.json: the run has not ended");
  }
  if (out["steps"].empty() && !summary.ok()) {
    return absl::NotFoundError(
        absl::StrCat(run_dir, " holds neither metrics.jsonl nor summary.json"));
  }
  const std::map<std::string, Task> tasks = RunTasks(run_dir, &notes);
  RolloutReader reader(tasks);
  ReadRollouts(JoinPath(run_dir, "rollouts"), &reader, &notes);
  reader.Finish(&out);
  out["notes"] = std::move(notes);
  return out;
}

}  // namespace dice::cli
