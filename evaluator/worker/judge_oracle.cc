#include "evaluator/worker/judge_oracle.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/digest.h"
#include "common/base/status_macros.h"

namespace dice {
namespace {

// References of the largest tasks take seconds on a CPU, in fp64 more.
constexpr absl::Duration kOracleTimeout = absl::Minutes(2);

Comparison ToComparison(const nlohmann::json& j) {
  Comparison c;
  c.ok = j.value("ok", false);
  c.text = j.value("text", "");
  c.max_error = j.value("max_error", 0.0);
  c.index = j.value("index", int64_t{-1});
  c.expected = j.value("expected", 0.0);
  c.got = j.value("got", 0.0);
  return c;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Oracle>> Oracle::Start(Zygote& zygote,
                                                      const ChildLimits& limits,
                                                      const Task& task,
                                                      const Profile& profile,
                                                      uint64_t seed) {
  std::shared_ptr<Oracle> o(new Oracle);
  // One-way: a candidate that reads it cannot draw the inputs in advance.
  o->run_seed_ = std::stoull(
      Sha256Hex(absl::StrCat("run seed ", seed)).substr(0, 12), nullptr, 16);
  DICE_ASSIGN_OR_RETURN(o->child_, zygote.Fork("oracle", limits));
  DICE_ASSIGN_OR_RETURN(const OwnedFd source,
                        StoreTree({{"v", task.reference_source()}}));
  DICE_ASSIGN_OR_RETURN(
      ChannelMessage ready,
      o->Ask({{"op", "task"},
              {"seed", seed},
              {"run_seed", o->run_seed_},
              {"max_elements", profile.max_elements()},
              {"tolerance", profile.tolerance() > 0 ? profile.tolerance()
                                                    : task.tolerance()}},
             {source.get()}));
  if (ready.fds.size() != 2) {
    return absl::UnavailableError("the oracle's answer is incomplete");
  }
  o->eager_seconds_ = ready.body.value("eager_s", 0.0);
  o->changes_inputs_ = ready.body.value("changes_inputs", false);
  o->notes_ = ready.body.value("notes", std::vector<std::string>());
  o->init_ = std::move(ready.fds[0]);
  o->state_ = std::move(ready.fds[1]);
  return o;
}

absl::StatusOr<ChannelMessage> Oracle::Ask(const nlohmann::json& request,
                                           const std::vector<int>& fds) {
  MutexLock lock(mu_);
  DICE_RETURN_IF_ERROR(child_->channel().Send(request, fds)) << "oracle";
  auto answer = child_->channel().Receive(absl::Now() + kOracleTimeout);
  if (absl::IsDeadlineExceeded(answer.status())) {
    child_->Kill();
    return absl::FailedPreconditionError(
        absl::StrCat("the reference took longer than ",
                     absl::FormatDuration(kOracleTimeout)));
  }
  if (!answer.ok()) {
    return absl::UnavailableError(
        absl::StrCat("oracle: ", answer.status().message()));
  }
  if (answer->body.value("op", "") == "task_error") {
    return absl::FailedPreconditionError(answer->body.value("text", ""));
  }
  return answer;
}

absl::StatusOr<int> Oracle::Keep(const std::string& key,
                                 const nlohmann::json& request) {
  {
    MutexLock lock(mu_);
    const auto it = kept_.find(key);
    if (it != kept_.end()) return it->second.get();
  }
  DICE_ASSIGN_OR_RETURN(ChannelMessage m, Ask(request, {}));
  if (m.fds.empty()) return absl::UnavailableError("oracle sent no tensors");
  MutexLock lock(mu_);
  // Another thread may have been first: keep its descriptor.
  return kept_.emplace(key, std::move(m.fds[0])).first->second.get();
}

absl::StatusOr<int> Oracle::Inputs(int set) {
  return Keep(absl::StrCat("set ", set), {{"op", "inputs"}, {"set", set}});
}

absl::StatusOr<int> Oracle::Burst(int index, int n) {
  return Keep(absl::StrCat("burst ", index, " of ", n),
              {{"op", "burst"}, {"index", index}, {"n", n}});
}

absl::StatusOr<int> Oracle::Slots(int n) {
  return Keep(absl::StrCat("slots ", n), {{"op", "slots"}, {"n", n}});
}

absl::StatusOr<Comparison> Oracle::Compare(int set, int outputs_fd,
                                           double tolerance) {
  DICE_ASSIGN_OR_RETURN(
      const ChannelMessage m,
      Ask({{"op", "compare"}, {"set", set}, {"tolerance", tolerance}},
          {outputs_fd}));
  return ToComparison(m.body);
}

absl::StatusOr<Comparison> Oracle::CompareBurst(int index, int n, int ran,
                                                int outputs_fd,
                                                double tolerance) {
  DICE_ASSIGN_OR_RETURN(const ChannelMessage m, Ask({{"op", "compare_burst"},
                                                     {"index", index},
                                                     {"n", n},
                                                     {"ran", ran},
                                                     {"tolerance", tolerance}},
                                                    {outputs_fd}));
  return ToComparison(m.body);
}

std::shared_ptr<OracleCache::Entry> OracleCache::Find(const std::string& key) {
  MutexLock lock(mu_);
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const auto& e) { return e.first == key; });
  if (it != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, it);
  } else {
    entries_.emplace_front(key, std::make_shared<Entry>());
    if (entries_.size() > capacity_) entries_.pop_back();
  }
  return entries_.front().second;
}

void OracleCache::Drop(const std::string& key) {
  MutexLock lock(mu_);
  entries_.remove_if([&](const auto& e) { return e.first == key; });
}

}  // namespace dice
