#include "common/text/fenced_code.h"

#include "gtest/gtest.h"

namespace dice {
namespace {

TEST(FencedCodeTest, TakesTheLastCompleteBlockOfACodeLanguage) {
  EXPECT_EQ(ExtractFencedCode("a\n```python\nx = 1\n```\nb\n```py\ny\n```\n"),
            "y\n");
  EXPECT_EQ(ExtractFencedCode("```python\nx\n```\n```\noutput\n```"), "x\n");
  EXPECT_EQ(ExtractFencedCode("```\nx\n```\n```json\n{}\n```"), "x\n");
}

TEST(FencedCodeTest, KeepsShorterFencesInside) {
  EXPECT_EQ(ExtractFencedCode("````cpp\n```\na\n```\n````\n"), "```\na\n```\n");
  EXPECT_EQ(ExtractFencedCode("~~~cuda\n```\n~~~"), "```\n");
}

TEST(FencedCodeTest, IgnoresWhatWasThoughtBefore) {
  EXPECT_EQ(ExtractFencedCode("<think>```py\nno\n```</think>ok\n```\nyes\n```"),
            "yes\n");
  EXPECT_EQ(ExtractFencedCode("```py\nno\n```</think>nothing"), std::nullopt);
}

TEST(FencedCodeTest, TakesAnOpenBlockOnlyWhenNoneIsComplete) {
  EXPECT_EQ(ExtractFencedCode("```python\nx = 1"), "x = 1");
  EXPECT_EQ(ExtractFencedCode("```python\nx\n```\n```python\ny"), "x\n");
  EXPECT_EQ(ExtractFencedCode("```"), "");
}

TEST(FencedCodeTest, FindsNothingWhereThereIsNone) {
  EXPECT_EQ(ExtractFencedCode("no code, only `inline` and ```inline```"),
            std::nullopt);
  EXPECT_EQ(ExtractFencedCode("    ```py\n    x\n    ```"), std::nullopt);
  EXPECT_EQ(ExtractFencedCode("```json\n{}\n```"), std::nullopt);
}

TEST(FencedCodeTest, HandlesCarriageReturns) {
  EXPECT_EQ(ExtractFencedCode("```python\r\nx\r\n```\r\n"), "x\r\n");
}

}  // namespace
}  // namespace dice
