// The whole compiler on real candidates: box, NVRTC, g++, cache.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "evaluator/compile/emulated_compiler.h"

namespace dice {
namespace {

// One cache for all tests of the process: the headers are compiled once.
Compiler& TheCompiler() {
  static auto* compiler = [] {
    auto made = CreateEmulatedCompiler({.python = DICE_TEST_PYTHON,
                                        .harness_dir = DICE_TEST_SOURCE_DIR,
                                        .cache_dir = DICE_TEST_CACHE_DIR});
    if (!made.ok()) ADD_FAILURE() << made.status().ToString();
    return new std::unique_ptr<Compiler>(made.ok() ? *std::move(made)
                                                   : nullptr);
  }();
  return **compiler;
}

CompileRequest Scale(const std::string& body, const std::string& tag) {
  CompileRequest r;
  r.cpp_sources = {"torch::Tensor run(torch::Tensor x);"};
  r.cuda_sources = {absl::StrCat(
      "// ", tag, "\n#include <torch/extension.h>\n",
      "__global__ void k(const float* x, float* y, int n) {\n"
      "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) ",
      body,
      "\n}\ntorch::Tensor run(torch::Tensor x) {\n"
      "  auto y = torch::empty_like(x);\n  int n = x.numel();\n"
      "  k<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), "
      "y.data_ptr<float>(), n);\n  return y;\n}\n")};
  r.functions = {"run"};
  return r;
}

// A tag that no earlier run of the test has in its cache.
std::string Fresh(const std::string& tag) {
  return absl::StrCat(tag, " ", getpid(), " ", time(nullptr));
}

using Kind = CompileResult::Kind;

TEST(EmulatedCompilerTest, CompilesAPlainCandidateAndRemembersIt) {
  const auto request = Scale("y[i] = 2 * x[i];", Fresh("plain"));
  const auto first = TheCompiler().Compile(request);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->kind, Kind::kOk) << first->text;
  EXPECT_EQ(first->tier, "lite");
  EXPECT_FALSE(first->cached);
  void* library = dlopen(first->object_path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_NE(dlsym(library, "dice_find"), nullptr);
  const auto second = TheCompiler().Compile(request);
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->cached);
  EXPECT_EQ(second->object_path, first->object_path);
}

TEST(EmulatedCompilerTest, ReportsDeviceErrorsWithTheCandidatesLines) {
  const auto r =
      TheCompiler().Compile(Scale("y[i] = oops(x[i]);", Fresh("bad")));
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->kind, Kind::kError);
  EXPECT_TRUE(absl::StrContains(r->text, "candidate.cu(5)")) << r->text;
  EXPECT_TRUE(absl::StrContains(r->text, "oops")) << r->text;
}

TEST(EmulatedCompilerTest, AGroupWithBadMembersStillServesTheGoodOnes) {
  constexpr int kCount = 12;
  std::vector<absl::StatusOr<CompileResult>> results(kCount,
                                                     absl::UnknownError(""));
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kCount; ++i)
      threads.emplace_back([&, i] {
        std::string body = absl::StrCat("y[i] = ", i, " * x[i];");
        if (i == 3) body = "y[i] = undefined_name;";
        if (i == 5) body = "y[i] = x[i] +;";
        if (i == 7) body = "y[i] = x[i]; }";
        results[size_t(i)] =
            TheCompiler().Compile(Scale(body, Fresh(absl::StrCat("group", i))));
      });
  }
  for (int i = 0; i < kCount; ++i) {
    const auto& r = results[size_t(i)];
    ASSERT_TRUE(r.ok()) << r.status();
    const bool bad = i == 3 || i == 5 || i == 7;
    EXPECT_EQ(r->kind == Kind::kError, bad) << i << ": " << r->text;
    EXPECT_EQ(absl::StrContains(r->text, "undefined_name"), i == 3) << r->text;
  }
}

TEST(EmulatedCompilerTest, TellsWhatIsMissingFromWhatDoesNotExist) {
  auto request = Scale("y[i] = x[i];", Fresh("missing"));
  request.cuda_sources[0] +=
      "torch::Tensor other(torch::Tensor x) { return torch::softmax(x, 0); }\n";
  const auto missing = TheCompiler().Compile(request);
  ASSERT_TRUE(missing.ok()) << missing.status();
  EXPECT_EQ(missing->kind, Kind::kUnsupported);
  EXPECT_EQ(missing->text, "softmax");
  request.cuda_sources[0] +=
      "void w() { torch::no_such_function_anywhere(); }\n";
  request.cuda_sources[0] =
      absl::StrCat(Scale("y[i] = x[i];", Fresh("none")).cuda_sources[0],
                   "void w() { torch::no_such_function_anywhere(); }\n");
  const auto wrong = TheCompiler().Compile(request);
  ASSERT_TRUE(wrong.ok()) << wrong.status();
  EXPECT_EQ(wrong->kind, Kind::kError);
  EXPECT_TRUE(absl::StrContains(wrong->text, "no_such_function"))
      << wrong->text;
}

}  // namespace
}  // namespace dice
