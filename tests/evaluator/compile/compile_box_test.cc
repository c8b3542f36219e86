#include "evaluator/compile/compile_box.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

class CompileBoxTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string python = std::getenv("DICE_PYTHON");
    const std::string lib =
        std::filesystem::path(python).parent_path().parent_path() / "lib";
    std::string site;
    for (const auto& e : std::filesystem::directory_iterator(lib)) {
      site = e.path() / "site-packages";
    }
    auto box = CompileBox::Start(
        {.box_binary = std::string(std::getenv("DICE_BUILD_DIR")) +
                       "/evaluator/compile/dice-compile-box",
         .site_packages = site,
         .log_path = testing::TempDir() + absl::StrCat("/box", getpid())});
    ASSERT_TRUE(box.ok()) << box.status();
    box_ = std::move(*box);
  }
  CompileBox::Output Device(const std::string& source) {
    auto r = box_->Nvrtc(source, "c.cu", {"--gpu-architecture=compute_90"}, 20);
    EXPECT_TRUE(r.ok()) << r.status();
    return *r;
  }
  CompileBox::Output Host(const std::string& source, double seconds = 20) {
    auto r = box_->Gxx(source, {"-x", "c++", "-", "-shared", "-fPIC", "-O1"},
                       object_, seconds);
    EXPECT_TRUE(r.ok()) << r.status();
    return *r;
  }
  const std::string object_ =
      testing::TempDir() + absl::StrCat("/o", getpid(), ".so");
  std::unique_ptr<CompileBox> box_;
};

using testing::HasSubstr;

TEST_F(CompileBoxTest, CompilesDeviceAndHostCodeForReal) {
  EXPECT_TRUE(Device("__global__ void k(float* x) { x[threadIdx.x] = 1; }")
                  .accepted);
  const auto bad = Device("__global__ void k(float* x) { y = 1; }");
  EXPECT_FALSE(bad.accepted);
  EXPECT_THAT(bad.log, HasSubstr("c.cu(1): error: identifier \"y\""));
  EXPECT_TRUE(Host("#include <vector>\nint f() { return 1; }").accepted);
  EXPECT_TRUE(std::filesystem::exists(object_));
}

TEST_F(CompileBoxTest, LeaksNoHostFilesAndHasNoNetwork) {
  for (const char* source :
       {"#include \"/etc/shadow\"\n", "#include \"/etc/passwd\"\n",
        "#include \"/proc/1/environ\"\n",
        "asm(\".incbin \\\"/etc/passwd\\\"\");\n"}) {
    const auto r = Host(source);
    EXPECT_FALSE(r.accepted) << source;
    EXPECT_THAT(r.log, testing::Not(HasSubstr("root:"))) << source;
  }
}

TEST_F(CompileBoxTest, BoundsABombAndGoesOn) {
  const absl::Time begin = absl::Now();
  const auto r = Host(
      "template <int a, int b> struct T { static constexpr long v = "
      "T<a - 1, 2 * b>::v + T<a - 1, 2 * b + 1>::v; };"
      "template <int b> struct T<0, b> { static constexpr long v = b; };"
      "long f() { return T<24, 0>::v; }",
      2);
  EXPECT_FALSE(r.accepted);
  EXPECT_TRUE(r.crashed) << r.log;
  EXPECT_LT(absl::Now() - begin, absl::Seconds(15));
  EXPECT_TRUE(Host("int f() { return 1; }").accepted);
}

}  // namespace
}  // namespace dice
