#include "learner/service.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <thread>

#include "common/base/digest.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/learner/rollouts.h"

namespace dice {
namespace {

class LearnerServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    server_ = *ServerRunner::Start({}, {&service_});
    stub_ = LearnerService::NewStub(*CreateChannel(server_->address()));
  }
  void TearDown() override {
    leases_.Close();
    policies_.Close();
  }

  LeaseTasksResponse LeaseAll() {
    LeaseTasksRequest request;
    request.set_protocol_version(1);
    request.set_actor("a");
    request.set_max_leases(10);
    LeaseTasksResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(stub_->LeaseTasks(&context, request, &response).ok());
    return response;
  }
  PushGroupResponse Push(const Lease& lease, std::vector<Rollout> rollouts) {
    grpc::ClientContext context;
    PushGroupResponse response;
    auto writer = stub_->PushGroup(&context, &response);
    PushGroupMessage message;
    message.mutable_header()->set_protocol_version(1);
    message.mutable_header()->set_lease_id(lease.lease_id());
    message.mutable_header()->set_attempt(lease.attempt());
    message.mutable_header()->set_num_rollouts(
        static_cast<int>(rollouts.size()));
    writer->Write(message);
    for (Rollout& r : rollouts) {
      *message.mutable_rollout() = std::move(r);
      writer->Write(message);
    }
    writer->WritesDone();
    EXPECT_TRUE(writer->Finish().ok());
    return response;
  }
  void Offer(const std::string& id) {
    Lease lease;
    lease.set_lease_id(id);
    lease.set_num_samples(2);
    leases_.Offer(lease);
  }
  std::vector<Rollout> RolloutsOf(const WeightsIdentity& identity) {
    auto out = Rollouts(2);
    for (Rollout& r : out) *r.mutable_response()->mutable_identity() = identity;
    return out;
  }

  Clock& clock_ = Clock::Real();
  MetricRegistry registry_;
  LearnerMetrics metrics_{registry_};
  LeaseTable leases_{{}, clock_};
  PolicyBoard policies_{"run", 1, clock_};
  LearnerServiceImpl service_{{.leases = leases_,
                               .policies = policies_,
                               .metrics = metrics_,
                               .clock = clock_,
                               .status = [] {
                                 LearnerStatus s;
                                 s.set_step(7);
                                 return s;
                               }}};
  std::unique_ptr<ServerRunner> server_;
  std::unique_ptr<LearnerService::Stub> stub_;
};

TEST_F(LearnerServiceTest, LeasesGoOutAndGroupsComeBackOnce) {
  const WeightsIdentity identity = policies_.Publish(0, "w");
  Offer("x");
  const LeaseTasksResponse response = LeaseAll();
  ASSERT_EQ(response.leases_size(), 1);
  EXPECT_FALSE(response.finished());
  EXPECT_TRUE(Push(response.leases(0), RolloutsOf(identity)).accepted());
  const auto again = Push(response.leases(0), RolloutsOf(identity));
  EXPECT_FALSE(again.accepted());
  EXPECT_EQ(again.reason(), "expired");
  EXPECT_EQ(metrics_.pushes["accepted"].Value(), 1);
  const auto group = leases_.Await(clock_.Now());
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->rollouts.size(), 2u);
}

TEST_F(LearnerServiceTest, SaysWhyAGroupDoesNotCount) {
  const WeightsIdentity identity = policies_.Publish(0, "w");
  WeightsIdentity strange = identity;
  strange.set_incarnation(2);
  Offer("x");
  EXPECT_EQ(Push(LeaseAll().leases(0), RolloutsOf(strange)).reason(),
            "unknown identity");
  EXPECT_EQ(Push(LeaseAll().leases(0), Rollouts(1)).reason(), "malformed");
  const auto lease = LeaseAll().leases(0);
  EXPECT_EQ(lease.attempt(), 2);
  EXPECT_TRUE(Push(lease, RolloutsOf(identity)).accepted());
}

TEST_F(LearnerServiceTest, RefusesAnotherProtocol) {
  LeaseTasksRequest request;
  request.set_protocol_version(99);
  LeaseTasksResponse response;
  grpc::ClientContext context;
  const auto status = stub_->LeaseTasks(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("99"));
}

TEST_F(LearnerServiceTest, WatchersSeeTheCurrentPolicyAndEachNewerOne) {
  policies_.Publish(3, "three");
  WatchPolicyRequest request;
  request.set_protocol_version(1);
  grpc::ClientContext context;
  auto reader = stub_->WatchPolicy(&context, request);
  PolicyVersion news;
  ASSERT_TRUE(reader->Read(&news));
  EXPECT_EQ(news.identity().version(), 3);
  EXPECT_EQ(news.bytes(), 5);
  policies_.Publish(4, "four");
  ASSERT_TRUE(reader->Read(&news));
  EXPECT_EQ(news.identity().version(), 4);
  context.TryCancel();
}

TEST_F(LearnerServiceTest, WeightsArriveInCheckedChunks) {
  std::string bytes(5 * (1 << 19) + 7, 'x');
  for (size_t i = 0; i < bytes.size(); i += 1000) bytes[i] = static_cast<char>(i);
  const WeightsIdentity identity = policies_.Publish(0, bytes);
  FetchWeightsRequest request;
  *request.mutable_identity() = identity;
  grpc::ClientContext context;
  auto reader = stub_->FetchWeights(&context, request);
  std::string got;
  WeightChunk chunk;
  while (reader->Read(&chunk)) {
    EXPECT_EQ(chunk.offset(), static_cast<int64_t>(got.size()));
    EXPECT_LE(chunk.data().size(), size_t{1} << 20);
    EXPECT_EQ(chunk.xxh3(), Xxh3(chunk.data()));
    got += chunk.data();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(Sha256Hex(got), identity.digest());

  request.mutable_identity()->set_version(9);
  grpc::ClientContext other;
  auto none = stub_->FetchWeights(&other, request);
  EXPECT_FALSE(none->Read(&chunk));
  EXPECT_EQ(none->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(LearnerServiceTest, TellsEveryActorThatTheRunIsOver) {
  LeaseAll();
  leases_.Close();
  std::thread waiter([&] { service_.AwaitFarewell(absl::InfiniteFuture()); });
  EXPECT_TRUE(LeaseAll().finished());
  waiter.join();
}

TEST_F(LearnerServiceTest, ReportsItsStatus) {
  LearnerStatus status;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->Status(&context, {}, &status).ok());
  EXPECT_EQ(status.step(), 7);
}

}  // namespace
}  // namespace dice
