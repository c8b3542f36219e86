#include "common/tasks/scaffold.h"

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

constexpr char kCuda[] = R"cu(
#include <torch/extension.h>
#define LAUNCH(k) k<<<1, 1>>>() /* { not a
   bracket */

// __global__ void commented() { }
namespace inner {
template <typename T, int kN = (3 > 2)>
__global__ void __launch_bounds__(256) scale(const T* x, T* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  const char* s = "} // no end";  // } nor here
  if (i < n) {
    const T v = x[i];
    o[i] = v > T('{') ? v : T(1'000);
  }
}
}  // namespace inner

extern "C" {
__global__ void plain(float* o) {
  for (int i = threadIdx.x; i < 8; ++i) { o[i] = 0; }
  o[0] = 1;
}
}

struct Config { int a = {1}; };
static const char* kText = R"x(__global__ void no() {)x";

__device__ float half(float v) { return v * 0.5f; }

torch::Tensor run(torch::Tensor x) {
  auto o = torch::empty_like(x);
  inner::scale<float><<<4, 256>>>(x.data_ptr<float>(), o.data_ptr<float>(), 9);
  return o;
}
)cu";

std::string Python(const std::string& cuda) {
  return absl::StrCat(
      "import torch  # it's \"commented\"\nfrom torch.utils.cpp_extension "
      "import "
      "load_inline\nname = 'a\\'b'\nsource = r\"\"\"",
      cuda, "\"\"\"\nm = load_inline(name=\"x\", cuda_sources=source)\n");
}

std::vector<std::string> Middles(const std::string& source, ScaffoldCut cut) {
  const auto cuts = CutScaffolds(source, cut);
  std::vector<std::string> out;
  if (!cuts.ok()) return {cuts.status().ToString()};
  for (const Scaffold& s : *cuts) {
    EXPECT_EQ(absl::StrCat(s.prefix(), s.middle(), s.suffix()), source);
    out.push_back(s.middle());
  }
  return out;
}

TEST(ScaffoldTest, FindsFunctionsPastCommentsStringsAndMacros) {
  const auto found = FindFunctions(kCuda);
  ASSERT_TRUE(found.ok()) << found.status();
  std::vector<std::string> names;
  for (const FunctionSpan& f : *found) {
    names.push_back(
        absl::StrCat(f.name, f.is_global ? "*" : "", f.launches ? "!" : ""));
  }
  EXPECT_THAT(names, testing::ElementsAre("scale*", "plain*", "half", "run!"));
}

TEST(ScaffoldTest, CutsABodyAfterItsIndexLinesAndInsideItsGuard) {
  EXPECT_THAT(
      Middles(kCuda, ScaffoldCut::kKernelBody),
      testing::ElementsAre(
          "  const char* s = \"} // no end\";  // } nor here\n  if (i < n) {\n"
          "    const T v = x[i];\n    o[i] = v > T('{') ? v : T(1'000);\n  }\n",
          "  for (int i = threadIdx.x; i < 8; ++i) { o[i] = 0; }\n"
          "  o[0] = 1;\n"));
  const std::string guarded =
      "__global__ void k(float* o) {\n  int i = threadIdx.x;\n  if (i < 4) {\n"
      "    o[i] = 1;\n    o[i] += 2;\n  }\n}\n";
  EXPECT_THAT(Middles(guarded, ScaffoldCut::kKernelBody),
              testing::ElementsAre("    o[i] = 1;\n    o[i] += 2;\n"));
  const std::string with_else =
      "__global__ void k(float* o) {\n  int i = threadIdx.x;\n"
      "  if (i < 4) {\n    o[i] = 1;\n  } else {\n    o[i] = 2;\n  }\n}\n";
  EXPECT_THAT(Middles(with_else, ScaffoldCut::kKernelBody),
              testing::ElementsAre("  if (i < 4) {\n    o[i] = 1;\n  } else {\n"
                                   "    o[i] = 2;\n  }\n"));
}

TEST(ScaffoldTest, CutsWholeKernelsAndLaunchers) {
  const auto kernels = Middles(kCuda, ScaffoldCut::kKernel);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_THAT(kernels[0], testing::StartsWith("template <typename T"));
  EXPECT_THAT(kernels[0], testing::EndsWith("  }\n}\n"));
  EXPECT_THAT(Middles(kCuda, ScaffoldCut::kLauncher),
              testing::ElementsAre(testing::StartsWith("  auto o =")));
}

TEST(ScaffoldTest, FindsTheCudaTextInsideAPythonFile) {
  EXPECT_EQ(Middles(Python(kCuda), ScaffoldCut::kKernelBody),
            Middles(kCuda, ScaffoldCut::kKernelBody));
  const auto strings =
      FindPythonStrings("a = 'x\\'y' # 'no'\nb = \"\"\"q\"q\"\"\"");
  ASSERT_EQ(strings.size(), 2u);
}

TEST(ScaffoldTest, SaysWhyThereIsNoCut) {
  EXPECT_EQ(CutScaffolds("int x;", ScaffoldCut::kKernel).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(CutScaffolds("__global__ void k() { (}", ScaffoldCut::kKernel)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ScaffoldTest, NeverFailsOnDamagedText) {
  const std::string source = Python(kCuda);
  Rng rng(3);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = source;
    for (int k = 0; k < 3; ++k) {
      const size_t at = rng.Below(damaged.size());
      if (rng.Below(2) == 0) {
        damaged.erase(at, rng.Below(20));
      } else {
        damaged.insert(at, 1, "{}()<>\"'\\#/*\nR"[rng.Below(14)]);
      }
    }
    for (const ScaffoldCut cut :
         {ScaffoldCut::kKernelBody, ScaffoldCut::kKernel,
          ScaffoldCut::kLauncher}) {
      const auto cuts = CutScaffolds(damaged, cut);
      if (!cuts.ok()) continue;
      for (const Scaffold& s : *cuts) {
        ASSERT_EQ(absl::StrCat(s.prefix(), s.middle(), s.suffix()), damaged);
      }
    }
  }
}

}  // namespace
}  // namespace dice
