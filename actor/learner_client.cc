#include "actor/learner_client.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "proto/learner_service.grpc.pb.h"

namespace dice {
namespace {

// For a call that the learner answers at once; more than enough on a slow
// network, and short enough to notice a learner that hangs.
constexpr absl::Duration kCallDeadline = absl::Seconds(30);
constexpr absl::Duration kFetchDeadline = absl::Minutes(10);
// Larger policies grow as they arrive: an announced size is not trusted.
constexpr int64_t kMaxReserve = int64_t{4} << 30;

absl::Status DataLoss(const PolicyVersion& version, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("weights ", version.identity().version(), ": ", what));
}

class GrpcLearnerClient : public LearnerClient {
 public:
  GrpcLearnerClient(std::shared_ptr<grpc::Channel> channel, std::string actor)
      : stub_(LearnerService::NewStub(channel)), actor_(std::move(actor)) {}

  absl::StatusOr<LeaseTasksResponse> LeaseTasks(int max_leases,
                                                absl::Duration wait) override {
    LeaseTasksRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_actor(actor_);
    request.set_max_leases(max_leases);
    request.set_wait_ms(static_cast<int32_t>(absl::ToInt64Milliseconds(wait)));
    LeaseTasksResponse response;
    Call call(*this, wait + kCallDeadline);
    DICE_RETURN_IF_ERROR(
        FromGrpc(stub_->LeaseTasks(&call.context, request, &response)));
    return response;
  }

  absl::StatusOr<std::vector<std::string>> RenewLeases(
      const std::vector<std::string>& lease_ids) override {
    RenewLeasesRequest request;
    request.set_actor(actor_);
    for (const std::string& id : lease_ids) request.add_lease_ids(id);
    RenewLeasesResponse response;
    Call call(*this, kCallDeadline);
    DICE_RETURN_IF_ERROR(
        FromGrpc(stub_->RenewLeases(&call.context, request, &response)));
    return std::vector<std::string>(response.lost().begin(),
                                    response.lost().end());
  }

  absl::StatusOr<PushGroupResponse> PushGroup(
      const Lease& lease, const std::vector<Rollout>& rollouts) override {
    PushGroupResponse response;
    Call call(*this, kCallDeadline);
    const auto stream = stub_->PushGroup(&call.context, &response);
    PushGroupMessage message;
    PushGroupHeader& header = *message.mutable_header();
    header.set_protocol_version(kProtocolVersion);
    header.set_actor(actor_);
    header.set_lease_id(lease.lease_id());
    header.set_attempt(lease.attempt());
    header.set_num_rollouts(static_cast<int32_t>(rollouts.size()));
    // A failed Write means that the stream has ended; Finish says why.
    bool open = stream->Write(message);
    for (const Rollout& rollout : rollouts) {
      if (!open) break;
      *message.mutable_rollout() = rollout;
      open = stream->Write(message);
    }
    stream->WritesDone();
    DICE_RETURN_IF_ERROR(FromGrpc(stream->Finish()));
    return response;
  }

  absl::Status WatchPolicy(
      const std::function<void(const PolicyVersion&)>& on_version) override {
    WatchPolicyRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_actor(actor_);
    Call call(*this, absl::InfiniteDuration());
    const auto stream = stub_->WatchPolicy(&call.context, request);
    PolicyVersion version;
    while (stream->Read(&version)) on_version(version);
    const absl::Status status = FromGrpc(stream->Finish());
    if (!status.ok()) return status;
    return absl::UnavailableError("the learner ended the policy stream");
  }

  absl::StatusOr<std::string> FetchWeights(
      const PolicyVersion& version) override {
    FetchWeightsRequest request;
    *request.mutable_identity() = version.identity();
    Call call(*this, kFetchDeadline);
    const auto stream = stub_->FetchWeights(&call.context, request);
    std::string bytes;
    absl::Status status;
    WeightChunk chunk;
    while (status.ok() && stream->Read(&chunk)) {
      status = Append(version, chunk, bytes);
    }
    if (!status.ok()) call.context.TryCancel();
    const absl::Status finished = FromGrpc(stream->Finish());
    DICE_RETURN_IF_ERROR(status);
    DICE_RETURN_IF_ERROR(finished) << "fetching weights";
    if (bytes.empty() ||
        static_cast<int64_t>(bytes.size()) != chunk.total_bytes()) {
      return DataLoss(version, absl::StrCat("got ", bytes.size(), " of ",
                                            chunk.total_bytes(), " bytes"));
    }
    const std::string digest = Sha256Hex(bytes);
    if (digest != version.identity().digest()) {
      return DataLoss(version, absl::StrCat("digest ", digest, " instead of ",
                                            version.identity().digest()));
    }
    return bytes;
  }

  void Shutdown() override {
    MutexLock lock(mu_);
    shut_down_ = true;
    for (grpc::ClientContext* context : in_flight_) context->TryCancel();
  }

 private:
  // A context that Shutdown can cancel.
  struct Call {
    Call(GrpcLearnerClient& client, absl::Duration timeout) : client(client) {
      if (timeout != absl::InfiniteDuration()) {
        context.set_deadline(std::chrono::system_clock::now() +
                             absl::ToChronoMilliseconds(timeout));
      }
      MutexLock lock(client.mu_);
      client.in_flight_.insert(&context);
      if (client.shut_down_) context.TryCancel();
    }
    ~Call() {
      MutexLock lock(client.mu_);
      client.in_flight_.erase(&context);
    }
    GrpcLearnerClient& client;
    grpc::ClientContext context;
  };

  static absl::Status Append(const PolicyVersion& version,
                             const WeightChunk& chunk, std::string& bytes) {
    if (chunk.total_bytes() <= 0 || chunk.total_bytes() != version.bytes()) {
      return DataLoss(version, absl::StrCat(chunk.total_bytes(),
                                            " bytes instead of the announced ",
                                            version.bytes()));
    }
    if (chunk.offset() != static_cast<int64_t>(bytes.size()) ||
        chunk.offset() + static_cast<int64_t>(chunk.data().size()) >
            chunk.total_bytes()) {
      return DataLoss(version, absl::StrCat("chunk at ", chunk.offset(),
                                            " does not follow ", bytes.size()));
    }
    if (Xxh3(chunk.data()) != chunk.xxh3()) {
      return DataLoss(version, absl::StrCat("chunk at ", chunk.offset(),
                                            " was changed on its way"));
    }
    if (bytes.empty()) {
      bytes.reserve(std::min(chunk.total_bytes(), kMaxReserve));
    }
    bytes += chunk.data();
    return absl::OkStatus();
  }

  const std::unique_ptr<LearnerService::Stub> stub_;
  const std::string actor_;
  Mutex mu_;
  std::set<grpc::ClientContext*> in_flight_ ABSL_GUARDED_BY(mu_);
  bool shut_down_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LearnerClient>> ConnectLearner(
    const std::string& address, const std::string& actor, bool allow_insecure) {
  TransportOptions transport;
  transport.allow_insecure = allow_insecure;
  DICE_ASSIGN_OR_RETURN(auto channel, CreateChannel(address, transport));
  return std::make_unique<GrpcLearnerClient>(std::move(channel), actor);
}

}  // namespace dice
