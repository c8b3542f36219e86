#include "learner/service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/digest.h"
#include "common/rpc/transport.h"

namespace dice {
namespace {

// How often a watcher without news looks whether its peer is gone.
constexpr absl::Duration kWatchInterval = absl::Seconds(1);
// A group has no more rollouts than this; bounds what a peer makes us hold.
constexpr int kMaxRollouts = 4096;

grpc::Status CheckProtocol(int32_t version) {
  if (version == kProtocolVersion) return grpc::Status::OK;
  return grpc::Status(
      grpc::StatusCode::FAILED_PRECONDITION,
      absl::StrCat("the peer speaks protocol ", version, ", this learner ",
                   kProtocolVersion, ": run the same release on both sides"));
}

grpc::Status Invalid(absl::string_view why) {
  return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, std::string(why));
}

}  // namespace

grpc::Status LearnerServiceImpl::LeaseTasks(grpc::ServerContext*,
                                            const LeaseTasksRequest* request,
                                            LeaseTasksResponse* response) {
  const grpc::Status version = CheckProtocol(request->protocol_version());
  if (!version.ok()) return version;
  {
    MutexLock lock(mu_);
    untold_.insert(request->actor());
  }
  const absl::Duration wait =
      std::clamp(absl::Milliseconds(request->wait_ms()), absl::ZeroDuration(),
                 kLongestWait);
  for (Lease& lease :
       deps_.leases.Take(std::max(1, request->max_leases()),
                         deps_.clock.Now() + wait)) {
    deps_.metrics.leases.Increment();
    *response->add_leases() = std::move(lease);
  }
  response->set_finished(deps_.leases.closed());
  if (response->finished()) {
    MutexLock lock(mu_);
    untold_.erase(request->actor());
    changed_.NotifyAll();
  }
  return grpc::Status::OK;
}

grpc::Status LearnerServiceImpl::RenewLeases(grpc::ServerContext*,
                                             const RenewLeasesRequest* request,
                                             RenewLeasesResponse* response) {
  for (std::string& id : deps_.leases.Renew(
           {request->lease_ids().begin(), request->lease_ids().end()})) {
    response->add_lost(std::move(id));
  }
  return grpc::Status::OK;
}

grpc::Status LearnerServiceImpl::PushGroup(
    grpc::ServerContext*, grpc::ServerReader<PushGroupMessage>* reader,
    PushGroupResponse* response) {
  PushGroupMessage message;
  if (!reader->Read(&message) || !message.has_header()) {
    return Invalid("the first message must be the header");
  }
  const PushGroupHeader header = message.header();
  const grpc::Status version = CheckProtocol(header.protocol_version());
  if (!version.ok()) return version;
  if (header.num_rollouts() < 0 || header.num_rollouts() > kMaxRollouts) {
    return Invalid(absl::StrCat("num_rollouts is ", header.num_rollouts()));
  }
  std::vector<Rollout> rollouts;
  bool known = true;
  while (reader->Read(&message)) {
    if (!message.has_rollout()) return Invalid("a header after the first");
    if (static_cast<int>(rollouts.size()) == header.num_rollouts()) {
      return Invalid("more rollouts than the header says");
    }
    Rollout& r = *message.mutable_rollout();
    known = known && (r.response().token_ids_size() == 0 ||
                      deps_.policies.Knows(r.response().identity()));
    rollouts.push_back(std::move(r));
  }
  // A stream that broke on the way is short, hence malformed, unless its lease
  // was lost already.
  const PushResult result = deps_.leases.Complete(
      header.lease_id(), header.attempt(), std::move(rollouts), known);
  deps_.metrics
      .pushes[absl::StrReplaceAll(PushReason(result), {{" ", "_"}})]
      .Increment();
  response->set_accepted(result == PushResult::kAccepted);
  if (!response->accepted()) response->set_reason(PushReason(result));
  return grpc::Status::OK;
}

grpc::Status LearnerServiceImpl::WatchPolicy(
    grpc::ServerContext* context, const WatchPolicyRequest* request,
    grpc::ServerWriter<PolicyVersion>* writer) {
  const grpc::Status version = CheckProtocol(request->protocol_version());
  if (!version.ok()) return version;
  int64_t seen = -1;
  while (!context->IsCancelled() && !deps_.leases.closed()) {
    const auto policy = deps_.policies.AwaitNewer(
        seen, deps_.clock.Now() + kWatchInterval);
    if (policy == nullptr) continue;
    seen = policy->identity.version();
    PolicyVersion news;
    *news.mutable_identity() = policy->identity;
    news.set_bytes(static_cast<int64_t>(policy->safetensors.size()));
    if (!writer->Write(news)) break;
  }
  return grpc::Status::OK;
}

grpc::Status LearnerServiceImpl::FetchWeights(
    grpc::ServerContext*, const FetchWeightsRequest* request,
    grpc::ServerWriter<WeightChunk>* writer) {
  const auto policy = deps_.policies.Find(request->identity());
  if (policy == nullptr) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND,
                        absl::StrCat("policy version ",
                                     request->identity().version(),
                                     " is not held"));
  }
  const std::string& bytes = policy->safetensors;
  WeightChunk chunk;
  chunk.set_total_bytes(static_cast<int64_t>(bytes.size()));
  for (size_t at = 0; at < bytes.size(); at += kChunkBytes) {
    const size_t size = std::min(kChunkBytes, bytes.size() - at);
    chunk.set_offset(static_cast<int64_t>(at));
    chunk.set_data(bytes.data() + at, size);
    chunk.set_xxh3(Xxh3(chunk.data()));
    if (!writer->Write(chunk)) break;
    deps_.metrics.weight_bytes.Increment(static_cast<double>(size));
  }
  return grpc::Status::OK;
}

grpc::Status LearnerServiceImpl::Status(grpc::ServerContext*,
                                        const LearnerStatusRequest*,
                                        LearnerStatus* response) {
  *response = deps_.status();
  return grpc::Status::OK;
}

void LearnerServiceImpl::AwaitFarewell(absl::Time deadline) {
  MutexLock lock(mu_);
  while (!untold_.empty() && deps_.clock.Now() < deadline) {
    deps_.clock.Await(changed_, mu_, deadline);
  }
}

}  // namespace dice
