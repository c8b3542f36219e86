#include "common/text/tokenizer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/text/unicode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dice {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TempDir(const std::string& name) {
  const std::string dir = absl::StrCat(::testing::TempDir(), "/", name);
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  return dir;
}

// A byte-level BPE of all bytes and a few merges, as tokenizer.json.
json SmallTokenizer() {
  json vocab = json::object();
  const auto add = [&](const std::string& t) {
    vocab.emplace(t, vocab.size());
  };
  int extra = 256;
  for (int b = 0; b < 256; ++b) {
    const bool printable =
        (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    const int c = printable ? b : extra++;
    add(c < 0x80 ? std::string(1, c)
                 : std::string{static_cast<char>(0xC0 | c >> 6),
                               static_cast<char>(0x80 | (c & 0x3F))});
  }
  for (const char* t : {"ab", "abc", "bc", "Ġa"}) add(t);
  return {{"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer",
           {{"type", "ByteLevel"},
            {"add_prefix_space", false},
            {"use_regex", false}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", vocab},
            {"merges", {"b c", "a b", "ab c", "Ġ a"}}}},
          {"added_tokens",
           {{{"id", 300}, {"content", "<|x|>"}},
            {{"id", 301}, {"content", "<|x|>y"}}}}};
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadJson(const json& spec) {
  const std::string dir = TempDir("tokenizer");
  DICE_CHECK_OK(WriteFileAtomic(dir + "/tokenizer.json", spec.dump()));
  return Tokenizer::Load(dir);
}

std::unique_ptr<Tokenizer> Small() { return *LoadJson(SmallTokenizer()); }

TEST(TokenizerTest, MergesByRankNotByLength) {
  const auto t = Small();
  // "b c" has the lower rank: abc is a + bc, though "abc" is a token.
  EXPECT_THAT(t->Encode("abc"),
              ElementsAre(*t->TokenToId("a"), *t->TokenToId("bc")));
  EXPECT_THAT(t->Encode("ab"), ElementsAre(*t->TokenToId("ab")));
  EXPECT_EQ(t->vocab_size(), 302);
}

TEST(TokenizerTest, IgnoresMergesForWholePiecesWhereTheFileSaysSo) {
  json spec = SmallTokenizer();
  spec["model"]["ignore_merges"] = true;
  const auto t = *LoadJson(spec);
  EXPECT_THAT(t->Encode("abc"), ElementsAre(*t->TokenToId("abc")));
}

TEST(TokenizerTest, TakesTheLongestAddedToken) {
  const auto t = Small();
  EXPECT_THAT(t->Encode("<|x|>y<|x|>z"),
              ElementsAre(301, 300, *t->TokenToId("z")));
  EXPECT_EQ(t->Decode(std::vector<int32_t>{301, 300, -5, 9999}), "<|x|>y<|x|>");
}

TEST(TokenizerTest, KeepsBytesThatAreNotUtf8) {
  const auto t = Small();
  Rng rng(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes;
    for (uint64_t n = rng.Below(40); n > 0; --n) bytes += char(rng.Below(256));
    if (SanitizeUtf8(bytes) == bytes) continue;  // NFC may change those
    EXPECT_EQ(SanitizeUtf8(t->Decode(t->Encode(bytes))),
              SanitizeUtf8(NormalizeUtf8(NormalForm::kNfc, bytes)));
  }
  EXPECT_EQ(t->Decode(t->Encode("a\xff\xfe"
                                "b\xc3")),
            "a\xff\xfe"
            "b\xc3");
}

TEST(TokenizerTest, NamesWhatItDoesNotReproduce) {
  const auto error = [](auto change) {
    json spec = SmallTokenizer();
    change(spec);
    return LoadJson(spec).status();
  };
  EXPECT_EQ(
      error([](json& s) { s["normalizer"]["type"] = "Lowercase"; }).code(),
      absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(error([](json& s) {
                            s["pre_tokenizer"]["type"] = "Metaspace";
                          }).message()),
              HasSubstr("ByteLevel"));
  EXPECT_EQ(error([](json& s) { s["model"]["type"] = "Unigram"; }).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(error([](json& s) { s["model"]["merges"] = {"q zz"}; }).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      error([](json& s) { s["added_tokens"][0]["lstrip"] = true; }).code(),
      absl::StatusCode::kUnimplemented);
  EXPECT_EQ(error([](json& s) { s["model"].erase("vocab"); }).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Tokenizer::Load("/nonexistent").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(TokenizerTest, EncodesLongRunsInReasonableTime) {
  const auto t = Small();
  // Quadratic merging would take hours on this piece.
  std::string text;
  for (int i = 0; i < 400000; ++i) text += "abc";
  const auto ids = t->Encode(text);
  EXPECT_EQ(ids.size(), 800000u);
  EXPECT_EQ(t->Decode(ids), text);
}

TEST(UnicodeTest, SanitizeReplacesMaximalInvalidParts) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(SanitizeUtf8("ok é 字"), "ok é 字");
  EXPECT_EQ(SanitizeUtf8("\xE5\xAD"), r);  // cut short: one
  EXPECT_EQ(SanitizeUtf8("\xE5\xAD"
                         "a"),
            r + "a");
  EXPECT_EQ(SanitizeUtf8("\xC0\x80"), r + r);          // overlong
  EXPECT_EQ(SanitizeUtf8("\xED\xA0\x80"), r + r + r);  // surrogate
  EXPECT_EQ(SanitizeUtf8("\xF0\x9F\x98"
                         "x\xFF"),
            r + "x" + r);
  EXPECT_EQ(SanitizeUtf8("\xF4\x90\x80\x80"), r + r + r + r);
}

TEST(UnicodeTest, CompletePrefixKeepsBackAnUnfinishedSequence) {
  const std::string emoji = "\xF0\x9F\x98\x80";
  for (size_t n = 0; n < 4; ++n) {
    EXPECT_EQ(CompleteUtf8Prefix("ab" + emoji.substr(0, n)), 2u);
  }
  EXPECT_EQ(CompleteUtf8Prefix("ab" + emoji), 6u);
  EXPECT_EQ(CompleteUtf8Prefix("ab\xFF"), 3u);    // never completes
  EXPECT_EQ(CompleteUtf8Prefix("\xE0\x80"), 2u);  // cannot go on so
}

// Compares with HF tokenizers on what hf_oracle.py left in `dir`.
void ExpectSameAsOracle(const std::string& dir, const std::string& load_from) {
  auto loaded = Tokenizer::Load(load_from);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Tokenizer& tokenizer = **loaded;
  std::ifstream cases(dir + "/cases.jsonl");
  std::string line;
  int count = 0, wrong = 0;
  while (std::getline(cases, line) && wrong < 5) {
    const json c = json::parse(line);
    const auto ids = c["ids"].get<std::vector<int32_t>>();
    ++count;
    const std::string decoded = SanitizeUtf8(tokenizer.Decode(ids));
    if (decoded != c["decoded"].get<std::string>()) {
      ++wrong;
      ADD_FAILURE() << "decode: " << line << "\n got " << decoded;
    }
    if (!c.contains("text")) continue;
    const auto got = tokenizer.Encode(c["text"].get<std::string>());
    if (got != ids) {
      ++wrong;
      ADD_FAILURE() << "encode: " << line << "\n got " << json(got).dump();
    }
  }
  EXPECT_GE(count, 1000);
  std::printf("%d cases equal in %s\n", count - wrong, dir.c_str());
}

int RunOracle(const std::string& arguments) {
  return std::system(absl::StrCat(std::getenv("DICE_PYTHON"), " ",
                                  std::getenv("DICE_SOURCE_DIR"),
                                  "/tests/common/text/hf_oracle.py ", arguments)
                         .c_str());
}

TEST(TokenizerParityTest, EqualsHfTokenizersOnThreeTrainedVocabularies) {
  const std::string dir = TempDir("parity");
  ASSERT_EQ(RunOracle(absl::StrCat(dir, " 7000")), 0);
  for (const char* name : {"qwen2", "gpt2", "statements"}) {
    ExpectSameAsOracle(absl::StrCat(dir, "/", name),
                       absl::StrCat(dir, "/", name));
  }
}

TEST(TokenizerParityTest, EqualsHfTokenizersOnAGivenFolder) {
  const char* given = std::getenv("DICE_TEST_TOKENIZER_DIR");
  if (given == nullptr) {
    GTEST_SKIP() << "set DICE_TEST_TOKENIZER_DIR to a folder of vocab.json, "
                    "merges.txt and tokenizer_config.json";
  }
  const std::string dir = TempDir("parity_given");
  ASSERT_EQ(RunOracle(absl::StrCat(dir, " 20000 ", given)), 0);
  ExpectSameAsOracle(dir + "/given", given);
  ExpectSameAsOracle(dir + "/given", dir + "/given");
}

}  // namespace
}  // namespace dice
