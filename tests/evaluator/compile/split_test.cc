#include "evaluator/compile/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "evaluator/compile/lexer.h"

namespace dice {
namespace {

constexpr char kPlain[] = R"(
#include <torch/extension.h>
__device__ float twice(float x) { return 2 * x; }
__global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = twice(x[i]);
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  scale<<<1, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
)";

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(SplitTest, KeepsDeviceCodeAndBlanksHostCode) {
  const SplitSource s = Split(kPlain);
  EXPECT_TRUE(Has(s.device, "__global__ void scale"));
  EXPECT_TRUE(Has(s.device, "twice(float x)"));
  EXPECT_FALSE(Has(s.device, "torch"));
  EXPECT_EQ(std::count(s.device.begin(), s.device.end(), '\n'),
            std::count(kPlain, kPlain + sizeof(kPlain) - 1, '\n'));
  EXPECT_TRUE(s.refusal.empty());
  EXPECT_TRUE(s.has_kernels);
}

TEST(SplitTest, TurnsALaunchIntoACallThatNeverWaits) {
  const SplitSource s = Split(kPlain);
  EXPECT_TRUE(s.has_launches);
  EXPECT_FALSE(Has(s.emulated, "<<<"));
  EXPECT_TRUE(Has(s.emulated,
                  "::dice_emulate::Run<false>([&](auto... dice_a) { "
                  "scale(dice_a...); }, ::dice_emulate::MakeLaunch(1, 256), "));
}

TEST(SplitTest, SeesABarrierThroughADeviceFunction) {
  const SplitSource s = Split(
      "__device__ void both() { __syncthreads(); }\n"
      "__global__ void k() { if (1) { both(); } }\n"
      "__global__ void plain() { if (1) { } }\n"
      "void run() { k<<<1, 2>>>(); plain<<<1, 2>>>(); }\n");
  EXPECT_TRUE(Has(s.emulated, "Run<true>([&](auto... dice_a) { k("));
  EXPECT_TRUE(Has(s.emulated, "Run<false>([&](auto... dice_a) { plain("));
}

TEST(SplitTest, RewritesTemplateLaunchesAndSharedMemoryOfAGivenSize) {
  const SplitSource s = Split(
      "template <typename T, int n> __global__ void k(T* p) {\n"
      "  extern __shared__ __align__(16) unsigned char raw[];\n"
      "}\n"
      "void run(float* p, cudaStream_t st) {\n"
      "  k<float, (1 > 0)><<<dim3(1, 2), 32, 4 * sizeof(float), st>>>(p);\n"
      "}\n");
  EXPECT_TRUE(Has(s.emulated,
                  "{ k<float, (1 > 0)>(dice_a...); }, "
                  "::dice_emulate::MakeLaunch(dim3(1, 2), 32, 4 * "
                  "sizeof(float), st), p)"));
  EXPECT_TRUE(Has(s.emulated,
                  "unsigned char* const raw = reinterpret_cast<unsigned char*>("
                  "::dice_emulate::dynamic_shared);"));
  EXPECT_TRUE(Has(s.device, "__global__ void k"));
  EXPECT_FALSE(Has(s.device, "run"));
}

TEST(SplitTest, KeepsDeviceMacrosStructsAndConstantsForTheDevice) {
  const SplitSource s = Split(
      "#define DEVICE __device__ __forceinline__\n"
      "#define TILE 16\n"
      "constexpr int kRows = 4;\n"
      "struct Pair { float a, b; };\n"
      "struct Host { torch::Tensor t; };\n"
      "DEVICE float f(float x) { return x; }\n"
      "static int helper(int n) { return n; }\n"
      "namespace inner { __constant__ float table[TILE]; int host() { return "
      "0; } }\n");
  for (const char* kept : {"#define TILE 16", "kRows", "struct Pair",
                           "DEVICE float f", "table[TILE]"})
    EXPECT_TRUE(Has(s.device, kept)) << kept;
  for (const char* gone : {"struct Host", "helper", "int host"})
    EXPECT_FALSE(Has(s.device, gone)) << gone;
}

TEST(SplitTest, RefusesToReadFilesOfTheMachine) {
  for (const char* source :
       {"#include \"/etc/passwd\"", "#include <../secret.h>",
        "#embed \"/etc/passwd\"", "%:include \"/etc/passwd\"",
        "_Pragma(\"GCC dependency\")", "#line 7 \"other.cu\"",
        "int x __attribute__((section(\".a\\n.incbin "
        "\\\"/etc/passwd\\\"\")));"})
    EXPECT_FALSE(Split(source).refusal.empty()) << source;
  EXPECT_EQ(
      Split("void f() { asm(\".incbin \\\"/etc/passwd\\\"\"); }").unsupported,
      "inline assembler");
  EXPECT_EQ(Split("#include <cub/cub.cuh>").unsupported, "<cub/cub.cuh>");
}

TEST(SplitTest, KeepsApartWhatCouldDisturbItsNeighbours) {
  for (const char* source :
       {"void f() {", "} namespace x {", "/* open", "\"open", "#if 1\n#endif",
        "extern int x;", "#define OPEN {", "static_assert(1, \"text\");"})
    EXPECT_TRUE(Split(source).needs_own_unit) << source;
  EXPECT_FALSE(Split(kPlain).needs_own_unit);
  EXPECT_FALSE(Split("#define N 4\nint f() { return '\\''; }").needs_own_unit);
}

TEST(LexerTest, KeepsRawStringsCommentsAndContinuationsWhole) {
  const auto tokens =
      Lex("R\"x(a\" )x\" // c \\\n still\nb #no\n#define A \\\n 1\nend");
  ASSERT_EQ(tokens.size(), 6u);
  EXPECT_EQ(tokens[0].kind, Token::Kind::kString);
  EXPECT_TRUE(tokens[1].Is("b"));
  EXPECT_EQ(tokens[4].kind, Token::Kind::kDirective);
  EXPECT_TRUE(tokens[5].Is("end"));
}

}  // namespace
}  // namespace dice
