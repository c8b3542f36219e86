#include "learner/lease_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/learner/rollouts.h"

namespace dice {
namespace {

class LeaseTableTest : public testing::Test {
 protected:
  void OfferOne(const std::string& id, int samples = 2, int64_t version = 0) {
    Lease lease;
    lease.set_lease_id(id);
    lease.set_num_samples(samples);
    lease.set_min_version(version);
    table_.Offer(lease);
  }
  std::vector<Lease> Take(int max = 10) {
    return table_.Take(max, clock_.Now());
  }
  PushResult Push(const std::string& id, int attempt,
                  std::vector<Rollout> rollouts, bool known = true) {
    return table_.Complete(id, attempt, std::move(rollouts), known);
  }

  FakeClock clock_;
  LeaseTable table_{{.lease_duration = absl::Seconds(10), .max_attempts = 3},
                    clock_};
};

TEST_F(LeaseTableTest, HandsOutEachTaskOnceAndReturnsItInSampleOrder) {
  OfferOne("a");
  OfferOne("b");
  EXPECT_EQ(Take(1).size(), 1u);
  EXPECT_EQ(Take().size(), 1u);
  EXPECT_TRUE(Take().empty());
  auto rollouts = Rollouts(2);
  std::swap(rollouts[0], rollouts[1]);
  EXPECT_EQ(Push("a", 0, rollouts), PushResult::kAccepted);
  const auto group = table_.Await(clock_.Now());
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->lease.lease_id(), "a");
  EXPECT_FALSE(group->lost);
  EXPECT_EQ(group->rollouts[0].sample_index(), 0);
  EXPECT_EQ(table_.outstanding(), 1);
}

TEST_F(LeaseTableTest, ExpiresJustAfterItsDeadlineAndNotJustBefore) {
  OfferOne("a");
  ASSERT_EQ(Take().size(), 1u);
  clock_.Advance(absl::Milliseconds(9999));
  EXPECT_TRUE(Take().empty());
  clock_.Advance(absl::Milliseconds(1));
  const auto again = Take();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].attempt(), 1);
  EXPECT_EQ(table_.expired_total(), 1);
}

TEST_F(LeaseTableTest, RenewalKeepsALeaseAndNamesTheLostOnes) {
  OfferOne("a");
  ASSERT_EQ(Take().size(), 1u);
  clock_.Advance(absl::Seconds(9));
  EXPECT_THAT(table_.Renew({"a", "b"}), testing::ElementsAre("b"));
  clock_.Advance(absl::Seconds(9));
  EXPECT_TRUE(Take().empty());
}

TEST_F(LeaseTableTest, ALateResultCountsOnlyWhileUndecided) {
  OfferOne("a");
  ASSERT_EQ(Take().size(), 1u);
  clock_.Advance(absl::Seconds(11));
  ASSERT_EQ(Take().size(), 1u);  // attempt 1 elsewhere
  EXPECT_EQ(Push("a", 0, Rollouts(2)), PushResult::kAccepted) << "first";
  EXPECT_EQ(Push("a", 1, Rollouts(2)), PushResult::kDecided);
  EXPECT_EQ(table_.outstanding(), 1);
}

TEST_F(LeaseTableTest, ALateResultAlsoWithdrawsTheOfferNobodyTook) {
  OfferOne("a");
  ASSERT_EQ(Take().size(), 1u);
  clock_.Advance(absl::Seconds(11));
  table_.Renew({});  // notices
  EXPECT_EQ(Push("a", 0, Rollouts(2)), PushResult::kAccepted);
  EXPECT_TRUE(Take().empty());
}

TEST_F(LeaseTableTest, AMalformedGroupGoesToTheNextAttempt) {
  OfferOne("a");
  ASSERT_EQ(Take().size(), 1u);
  auto twice = Rollouts(2);
  twice[1].set_sample_index(0);
  EXPECT_EQ(Push("a", 0, twice), PushResult::kMalformed);
  ASSERT_EQ(Take().size(), 1u);
  auto ragged = Rollouts(2);
  ragged[0].mutable_response()->add_steps(1);
  EXPECT_EQ(Push("a", 1, ragged), PushResult::kMalformed);
  ASSERT_EQ(Take().size(), 1u);
  EXPECT_EQ(Push("a", 2, Rollouts(2)), PushResult::kAccepted);
}

TEST_F(LeaseTableTest, ABadLateResultDoesNotDisturbTheHolder) {
  OfferOne("a");
  ASSERT_EQ(Take().size(), 1u);
  clock_.Advance(absl::Seconds(11));
  ASSERT_EQ(Take().size(), 1u);
  EXPECT_EQ(Push("a", 0, Rollouts(1)), PushResult::kMalformed);
  EXPECT_TRUE(Take().empty()) << "attempt 1 still holds it";
  EXPECT_EQ(Push("a", 1, Rollouts(2)), PushResult::kAccepted);
}

TEST_F(LeaseTableTest, RefusesStaleSamplesAndUnknownWeights) {
  OfferOne("a", 2, /*version=*/5);
  ASSERT_EQ(Take().size(), 1u);
  auto rollouts = Rollouts(2, /*version=*/5);
  rollouts[1].mutable_response()->mutable_identity()->set_version(4);
  EXPECT_EQ(Push("a", 0, rollouts), PushResult::kStale);
  ASSERT_EQ(Take().size(), 1u);
  EXPECT_EQ(Push("a", 1, Rollouts(2, 5), /*known=*/false),
            PushResult::kUnknownIdentity);
  ASSERT_EQ(Take().size(), 1u);
  EXPECT_EQ(Push("a", 2, Rollouts(2, 5)), PushResult::kAccepted);
}

TEST_F(LeaseTableTest, GivesUpInsteadOfRetryingForEver) {
  OfferOne("a");
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(Take().size(), 1u) << i;
    clock_.Advance(absl::Seconds(11));
  }
  EXPECT_TRUE(Take().empty());
  const auto group = table_.Await(clock_.Now());
  ASSERT_TRUE(group.has_value());
  EXPECT_TRUE(group->lost);
  EXPECT_TRUE(group->rollouts.empty());
}

TEST_F(LeaseTableTest, SamplesLostToInfrastructureNeedNoResponse) {
  OfferOne("a");
  ASSERT_EQ(Take().size(), 1u);
  auto rollouts = Rollouts(2);
  rollouts[1].clear_response();
  EXPECT_EQ(Push("a", 0, rollouts), PushResult::kMalformed);
  ASSERT_EQ(Take().size(), 1u);
  rollouts[1].set_infra_error("pool gone");
  EXPECT_EQ(Push("a", 1, rollouts), PushResult::kAccepted);
}

TEST_F(LeaseTableTest, WithdrawnWorkIsLostToItsHolders) {
  OfferOne("a");
  OfferOne("b");
  ASSERT_EQ(Take(1).size(), 1u);
  table_.Withdraw();
  EXPECT_EQ(table_.outstanding(), 0);
  EXPECT_THAT(table_.Renew({"a"}), testing::ElementsAre("a"));
  EXPECT_EQ(Push("a", 0, Rollouts(2)), PushResult::kDecided);
}

TEST_F(LeaseTableTest, CloseWakesEveryone) {
  table_.Close();
  EXPECT_TRUE(table_.Take(1, absl::InfiniteFuture()).empty());
  EXPECT_FALSE(table_.Await(absl::InfiniteFuture()).has_value());
}

}  // namespace
}  // namespace dice
