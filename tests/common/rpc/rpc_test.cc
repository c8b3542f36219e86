#include <chrono>
#include <cstdlib>

#include "common/base/process.h"
#include "common/rpc/channel.h"
#include "common/rpc/ready_file.h"
#include "common/rpc/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/evaluator_service.grpc.pb.h"

namespace dice {
namespace {

using ::testing::HasSubstr;

// Answers PoolStatus; Evaluate stays open until the peer or the server ends it.
class FakeService : public EvaluatorService::CallbackService {
 public:
  grpc::ServerUnaryReactor* PoolStatus(grpc::CallbackServerContext* context,
                                       const PoolStatusRequest*,
                                       PoolStatusResponse* response) override {
    response->set_queued(5);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerBidiReactor<EvaluateRequest, EvaluateResponse>* Evaluate(
      grpc::CallbackServerContext*) override {
    struct Open : grpc::ServerBidiReactor<EvaluateRequest, EvaluateResponse> {
      Open() { StartSendInitialMetadata(); }
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }
    };
    return new Open;
  }
};

grpc::Status Call(const std::string& address,
                  const TransportOptions& options = {}) {
  const auto channel = CreateChannel(address, options);
  if (!channel.ok()) return ToGrpc(channel.status());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  PoolStatusResponse response;
  return EvaluatorService::NewStub(*channel)->PoolStatus(&context, {},
                                                         &response);
}

class ServerRunnerTest : public ::testing::Test {
 protected:
  std::unique_ptr<ServerRunner> Start(ServerRunner::Options options = {}) {
    auto server = ServerRunner::Start(options, {&service_});
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? std::move(*server) : nullptr;
  }
  FakeService service_;
};

TEST_F(ServerRunnerTest, ChoosesAPortAndAnnouncesItInTheReadyFile) {
  const std::string ready = ::testing::TempDir() + "/rpc_ready";
  const auto server = Start({.ready_file = ready, .metrics_address = "m:1"});
  EXPECT_EQ(ReadReadyFile(ready).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(server->MarkReady().ok());
  const auto info = ReadReadyFile(ready);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->address, server->address());
  EXPECT_EQ(info->metrics_address, "m:1");
  EXPECT_TRUE(Call(info->address).ok());
  unlink(ready.c_str());
}

TEST_F(ServerRunnerTest, APortInUseIsAnErrorNotAShare) {
  const auto server = Start();
  EXPECT_EQ(ServerRunner::Start({.port = server->port()}, {&service_})
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ServerRunnerTest, DrainEndsAStreamThatItsPeerForgot) {
  const auto server = Start();
  const auto channel = CreateChannel(server->address());
  grpc::ClientContext context;
  const auto stream = EvaluatorService::NewStub(*channel)->Evaluate(&context);
  stream->WaitForInitialMetadata();
  server->Drain(absl::ZeroDuration());
  EXPECT_FALSE(stream->Finish().ok());
}

TEST_F(ServerRunnerTest, RefusesPlaintextToOtherMachines) {
  EXPECT_EQ(
      ServerRunner::Start({.host = "0.0.0.0"}, {&service_}).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CreateChannel("10.0.0.1:80").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(CreateChannel("10.0.0.1:80", {.allow_insecure = true}).ok());
  EXPECT_THAT(std::string(CreateChannel("10.0.0.1:80",
                                        {.token = "t", .allow_insecure = true})
                              .status()
                              .message()),
              HasSubstr("token"));
}

TEST_F(ServerRunnerTest, ATokenIsAskedOfEveryCall) {
  const auto server = Start({.transport = {.token = "secret"}});
  EXPECT_TRUE(Call(server->address(), {.token = "secret"}).ok());
  EXPECT_EQ(Call(server->address(), {.token = "wrong1"}).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_FALSE(Call(server->address()).ok());
}

TEST_F(ServerRunnerTest, MutualTlsLetsInWhoHasACertificate) {
  const std::string dir = ::testing::TempDir();
  const std::string cert = dir + "/cert.pem", key = dir + "/key.pem";
  auto openssl = Process::Spawn(
      {.argv = {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                "-out", cert, "-days", "1", "-subj", "/CN=localhost", "-addext",
                "subjectAltName=DNS:localhost"},
       .stdout_path = "/dev/null",
       .stderr_path = "/dev/null"});
  if (!openssl.ok() || !(*openssl)->Wait()->ok()) GTEST_SKIP() << "no openssl";
  const TransportOptions both = {
      .ca_path = cert, .cert_path = cert, .key_path = key, .token = "secret"};
  const auto server = Start({.host = "localhost", .transport = both});
  EXPECT_TRUE(Call(server->address(), both).ok());
  EXPECT_FALSE(Call(server->address(), {.ca_path = cert}).ok());
}

}  // namespace
}  // namespace dice
