#include "common/parallel/process_group.h"

#include <chrono>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace dice {
namespace {

// The boundary where c10d's exceptions become Status.
template <typename F>
absl::Status Guard(const char* what, F&& f) {
  try {
    f();
    return absl::OkStatus();
  } catch (const std::exception& e) {
    return absl::UnavailableError(absl::StrCat(what, ": ", e.what()));
  }
}

class SingleGroup : public ProcessGroup {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  absl::Status AllReduceSum(torch::Tensor) override { return absl::OkStatus(); }
  absl::StatusOr<std::string> Broadcast(const std::string& bytes) override {
    return bytes;
  }
  absl::Status Barrier() override { return absl::OkStatus(); }
};

class GlooGroup : public ProcessGroup {
 public:
  explicit GlooGroup(c10::intrusive_ptr<c10d::ProcessGroupGloo> group)
      : group_(std::move(group)) {}
  int rank() const override { return group_->getRank(); }
  int size() const override { return group_->getSize(); }

  absl::Status AllReduceSum(torch::Tensor tensor) override {
    return Guard("all-reduce", [&] {
      std::vector<at::Tensor> tensors = {tensor};
      group_->allreduce(tensors)->wait();
    });
  }

  absl::StatusOr<std::string> Broadcast(const std::string& bytes) override {
    std::string out;
    DICE_RETURN_IF_ERROR(Guard("broadcast", [&] {
      at::Tensor size = torch::tensor({static_cast<int64_t>(bytes.size())});
      std::vector<at::Tensor> tensors = {size};
      group_->broadcast(tensors)->wait();
      out.resize(size.item<int64_t>());
      if (out.empty()) return;
      at::Tensor data = torch::empty({size.item<int64_t>()}, torch::kUInt8);
      if (rank() == 0) {
        std::memcpy(data.data_ptr(), bytes.data(), bytes.size());
      }
      tensors = {data};
      group_->broadcast(tensors)->wait();
      std::memcpy(out.data(), data.data_ptr(), out.size());
    }));
    return out;
  }

  absl::Status Barrier() override {
    return Guard("barrier", [&] { group_->barrier()->wait(); });
  }

 private:
  const c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

std::chrono::milliseconds Milliseconds(absl::Duration d) {
  return std::chrono::milliseconds(absl::ToInt64Milliseconds(d));
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host.rfind("127.", 0) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessGroup>> CreateProcessGroup(
    const RankInfo& info, const ProcessGroupOptions& options) {
  if (info.world_size == 1) return std::make_unique<SingleGroup>();
  std::unique_ptr<ProcessGroup> out;
  DICE_RETURN_IF_ERROR(Guard("rendezvous", [&] {
    c10d::TCPStoreOptions store_options;
    store_options.port = static_cast<uint16_t>(info.master_port);
    store_options.isServer = info.rank == 0 && !info.agent_store;
    store_options.numWorkers = info.world_size;
    store_options.waitWorkers = false;
    store_options.timeout = Milliseconds(options.rendezvous_timeout);
    auto store = c10::make_intrusive<c10d::PrefixStore>(
        absl::StrCat(options.run_key, "/", info.attempt),
        c10::make_intrusive<c10d::TCPStore>(info.master_address,
                                            store_options));
    auto gloo = c10d::ProcessGroupGloo::Options::create();
    gloo->timeout = Milliseconds(options.timeout);
    // Machines whose own name does not resolve need an explicit host.
    gloo->devices.push_back(
        IsLoopback(info.master_address)
            ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
            : c10d::ProcessGroupGloo::createDefaultDevice());
    out = std::make_unique<GlooGroup>(
        c10::make_intrusive<c10d::ProcessGroupGloo>(
            store, info.rank, info.world_size, gloo));
  })) << "rank " << info.rank << " of " << info.world_size << " at "
      << info.master_address << ":" << info.master_port;
  return out;
}

}  // namespace dice
