#include "common/model/safetensors.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

std::string File(const std::string& header, size_t data_bytes) {
  const uint64_t n = header.size();
  return std::string(reinterpret_cast<const char*>(&n), 8) + header +
         std::string(data_bytes, '\1');
}

std::string ErrorOf(const std::string& file) {
  auto r = ParseSafetensors(file);
  return r.ok() ? "" : std::string(r.status().message());
}

TEST(SafetensorsTest, RoundTripKeepsOrderTypesAndBytes) {
  const NamedTensors in = {{"b", torch::randn({2, 3}).to(torch::kBFloat16)},
                           {"a", torch::arange(4, torch::kInt64)},
                           {"empty", torch::zeros({0, 2})}};
  const std::string bytes = *SerializeSafetensors(in);
  const NamedTensors out = *ParseSafetensors(bytes);
  ASSERT_EQ(out.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(out[i].first, in[i].first);
    EXPECT_TRUE(torch::equal(out[i].second, in[i].second));
  }
  EXPECT_EQ(*SerializeSafetensors(out), bytes);
}

TEST(SafetensorsTest, HostileHeadersNameTensorAndReason) {
  using testing::HasSubstr;
  const std::string ok =
      R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(ErrorOf(File(ok, 8)), "");
  EXPECT_THAT(ErrorOf(File(ok, 7)), HasSubstr("'t': bytes [0, 8) lie outside"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("shorter than 8"));
  EXPECT_THAT(ErrorOf(std::string(8, '\xff')), HasSubstr("header of"));
  EXPECT_THAT(ErrorOf(File("{", 0)), HasSubstr("not JSON"));
  EXPECT_THAT(
      ErrorOf(File(R"({"t":{"dtype":"F3","shape":[2],"data_offsets":[0,8]}})",
                   8)),
      HasSubstr("'t': unknown dtype F3"));
  EXPECT_THAT(
      ErrorOf(File(R"({"t":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
                   8)),
      HasSubstr("shape needs 12 bytes, has 8"));
  EXPECT_THAT(
      ErrorOf(File(
          R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}})", 8)),
      HasSubstr("bad shape"));
  EXPECT_THAT(ErrorOf(File(R"({"t":{"dtype":"F32","shape":
      [1000000000,1000000000,1000000000],"data_offsets":[0,8]}})",
                           8)),
              HasSubstr("overflows"));
  EXPECT_THAT(ErrorOf(File(R"({"t":{"dtype":"F32","shape":[2],
      "data_offsets":[0,8]},"u":{"dtype":"F32","shape":[2],
      "data_offsets":[4,12]}})",
                           12)),
              HasSubstr("'u': overlaps"));
}

}  // namespace
}  // namespace dice
