#include "common/text/pre_tokenizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/text/split_regex.h"
#include "common/text/unicode.h"
#include "nlohmann/json.hpp"

namespace dice {
namespace {

constexpr char kQwen2Pattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|)"
    R"(\s+(?!\S)|\s+)";

std::string EscapeRegex(const std::string& literal) {
  std::string out;
  for (const char c : literal) {
    if (std::string_view(R"(\.+*?()|[]{}^$#&-~)").find(c) !=
        std::string_view::npos) {
      out += '\\';
    }
    out += c;
  }
  return out;
}

}  // namespace

PreTokenizer::PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

absl::StatusOr<PreTokenizer> PreTokenizer::FromJson(
    const nlohmann::json& spec) {
  PreTokenizer out;
  if (spec.is_null()) return out;
  DICE_RETURN_IF_ERROR(out.Add(spec));
  return out;
}

PreTokenizer PreTokenizer::Qwen2() {
  PreTokenizer out;
  DICE_CHECK_OK(out.AddRegex(kQwen2Pattern, Unmatched::kKeep));
  return out;
}

PreTokenizer PreTokenizer::Gpt2() {
  PreTokenizer out;
  DICE_CHECK_OK(out.AddRegex(kGpt2Pattern, Unmatched::kKeep));
  return out;
}

absl::Status PreTokenizer::Add(const nlohmann::json& spec) {
  const std::string type = spec.at("type").get<std::string>();
  if (type == "Sequence") {
    for (const nlohmann::json& part : spec.at("pretokenizers")) {
      DICE_RETURN_IF_ERROR(Add(part));
    }
    return absl::OkStatus();
  }
  if (type == "ByteLevel") {
    if (spec.value("add_prefix_space", true)) {
      return absl::UnimplementedError(
          "pre_tokenizer ByteLevel with add_prefix_space");
    }
    return spec.value("use_regex", true)
               ? AddRegex(kGpt2Pattern, Unmatched::kKeep)
               : absl::OkStatus();
  }
  if (type == "Digits") {
    return AddRegex(
        spec.value("individual_digits", false) ? "\\p{N}" : "\\p{N}+",
        Unmatched::kKeep);
  }
  if (type != "Split") {
    return absl::UnimplementedError(absl::StrCat("pre_tokenizer ", type));
  }
  const nlohmann::json& pattern = spec.at("pattern");
  const std::string regex =
      pattern.contains("Regex")
          ? pattern.at("Regex").get<std::string>()
          : EscapeRegex(pattern.at("String").get<std::string>());
  const std::string behavior = spec.at("behavior").get<std::string>();
  const bool invert = spec.value("invert", false);
  if (behavior == "Isolated") return AddRegex(regex, Unmatched::kKeep);
  if (behavior == "Removed" && invert) return AddRegex(regex, Unmatched::kDrop);
  return absl::UnimplementedError(
      absl::StrCat("pre_tokenizer Split with behavior ", behavior,
                   invert ? " inverted" : ""));
}

absl::Status PreTokenizer::AddRegex(const std::string& pattern,
                                    Unmatched unmatched) {
  DICE_ASSIGN_OR_RETURN(auto regex, SplitRegex::Compile(pattern));
  steps_.push_back({std::move(regex), unmatched});
  return absl::OkStatus();
}

void PreTokenizer::Apply(size_t step, absl::string_view text,
                         std::vector<absl::string_view>* pieces) const {
  if (text.empty()) return;
  if (step == steps_.size()) {
    pieces->push_back(text);
    return;
  }
  const Step& s = steps_[step];
  size_t done = 0;
  while (done < text.size()) {
    const auto match = s.regex->Find(text, done);
    const size_t begin = match ? match->first : text.size();
    if (begin > done && s.unmatched == Unmatched::kKeep) {
      Apply(step + 1, text.substr(done, begin - done), pieces);
    }
    if (!match) return;
    Apply(step + 1, text.substr(begin, match->second - begin), pieces);
    done = match->second;
  }
}

void PreTokenizer::Split(absl::string_view text,
                         std::vector<absl::string_view>* pieces) const {
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    Apply(0, text.substr(0, valid), pieces);
    text.remove_prefix(valid);
    size_t bad = 0;
    while (bad < text.size() && Utf8SequenceLength(text.substr(bad)) == 0)
      ++bad;
    if (bad > 0) pieces->push_back(text.substr(0, bad));
    text.remove_prefix(bad);
  }
}

}  // namespace dice
