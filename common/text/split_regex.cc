#include "common/text/split_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace dice {
namespace {

absl::Status Differs(absl::string_view what, const std::string& pattern) {
  return absl::UnimplementedError(
      absl::StrCat("regular expression with ", what, ": ", pattern));
}

// Rewrites what Oniguruma and PCRE2 spell alike and mean differently. PCRE2's
// Unicode \s also takes U+180E, which is not white space.
absl::StatusOr<std::string> Translate(const std::string& pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\') {
      switch (next) {
        case 's':
          out += "\\p{White_Space}";
          break;
        case 'S':
          out += "\\P{White_Space}";
          break;
        case 'h':
        case 'H':
        case 'R':
        case 'X':
        case 'K':
          return Differs(absl::StrCat("\\", std::string(1, next)), pattern);
        default:
          out.append({c, next});
      }
      ++i;
      // The braces of \p{L} and \x{61} are no quantifier.
      if (i + 1 < pattern.size() && pattern[i + 1] == '{' &&
          absl::string_view("pPx").find(next) != absl::string_view::npos) {
        const size_t end = std::min(pattern.find('}', i), pattern.size() - 1);
        out += pattern.substr(i + 1, end - i);
        i = end;
      }
    } else if (in_class && c == '&' && next == '&') {
      return Differs("a class intersection", pattern);
    } else if (in_class && c == '[') {
      const size_t end =
          next == ':' ? pattern.find(":]", i) : std::string::npos;
      if (end == std::string::npos) return Differs("a nested class", pattern);
      out += pattern.substr(i, end + 2 - i);
      i = end + 1;
    } else if (!in_class && c == '}' && next == '+') {
      return Differs("{n}+", pattern);  // possessive in one, twice in the other
    } else {
      if (in_class && c == ']') {
        in_class = false;
      } else if (c == '[') {
        in_class = true;
        // A bracket right after the opening is a literal.
        if (next == '^') out += pattern[i++];
        if (i + 1 < pattern.size() && pattern[i + 1] == ']')
          out += pattern[i++];
      }
      out += pattern[i];
    }
  }
  return out;
}

struct MatchState {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack =
      pcre2_jit_stack_create(64 << 10, size_t{16} << 20, nullptr);
  MatchState() { pcre2_jit_stack_assign(context, nullptr, stack); }
  ~MatchState() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<const SplitRegex>> SplitRegex::Compile(
    const std::string& pattern) {
  DICE_ASSIGN_OR_RETURN(const std::string translated, Translate(pattern));
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Ruby syntax, Oniguruma's default: ^ and $ are always at lines.
  pcre2_code* code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, nullptr);
  if (code == nullptr) {
    PCRE2_UCHAR text[128];
    pcre2_get_error_message(error, text, sizeof(text));
    return absl::InvalidArgumentError(
        absl::StrCat("regular expression ", pattern, ": ",
                     reinterpret_cast<const char*>(text), " at ", offset));
  }
  // Without the JIT (a hardened kernel may forbid it) matching is only slower.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return std::unique_ptr<const SplitRegex>(new SplitRegex(code));
}

SplitRegex::~SplitRegex() { pcre2_code_free(static_cast<pcre2_code*>(code_)); }

std::optional<std::pair<size_t, size_t>> SplitRegex::Find(
    absl::string_view text, size_t from) const {
  thread_local MatchState state;
  const auto* code = static_cast<const pcre2_code*>(code_);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  while (from < text.size()) {
    uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int rc = pcre2_match(code, subject, text.size(), from, options, state.data,
                         state.context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
      rc = pcre2_match(code, subject, text.size(), from, options | PCRE2_NO_JIT,
                       state.data, state.context);
    }
    if (rc == PCRE2_ERROR_NOMATCH) return std::nullopt;
    DICE_CHECK(rc >= 0) << "pcre2_match: " << rc;
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(state.data);
    return std::pair(span[0], span[1]);
  }
  return std::nullopt;
}

}  // namespace dice
