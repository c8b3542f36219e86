#include "common/text/unicode.h"

#include <utf8proc.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "common/base/log.h"
#include "common/text/tokenizer.h"

namespace dice {
namespace {

uint8_t Byte(absl::string_view s, size_t i) {
  return static_cast<uint8_t>(s[i]);
}

// How a sequence that starts with `lead` may go on (Unicode table 3-7).
struct LeadRule {
  size_t length = 0;  // 0: not a lead byte
  uint8_t second_lo = 0x80, second_hi = 0xBF;
};
LeadRule RuleOf(uint8_t lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xC2) return {0};
  if (lead < 0xE0) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

// Bytes at the front that are a proper or whole prefix of some sequence; 0 if
// the first byte cannot lead one.
size_t PlausibleLength(absl::string_view s, LeadRule rule) {
  if (rule.length == 0) return 0;
  size_t i = 1;
  for (; i < rule.length && i < s.size(); ++i) {
    const uint8_t lo = i == 1 ? rule.second_lo : 0x80;
    const uint8_t hi = i == 1 ? rule.second_hi : 0xBF;
    if (Byte(s, i) < lo || Byte(s, i) > hi) break;
  }
  return i;
}

size_t AsciiPrefix(absl::string_view s) {
  size_t i = 0;
  for (; i + 8 <= s.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, s.data() + i, 8);
    if (word & 0x8080808080808080u) break;
  }
  while (i < s.size() && Byte(s, i) < 0x80) ++i;
  return i;
}

int ProcOptions(NormalForm form) {
  switch (form) {
    case NormalForm::kNone:
      return 0;
    case NormalForm::kNfc:
      return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    case NormalForm::kNfd:
      return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case NormalForm::kNfkc:
      return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case NormalForm::kNfkd:
      return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return 0;
}

void AppendNormalized(NormalForm form, absl::string_view valid,
                      std::string* out) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t n = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(valid.data()), valid.size(),
      &mapped, static_cast<utf8proc_option_t>(ProcOptions(form)));
  DICE_CHECK(n >= 0) << utf8proc_errmsg(n);
  out->append(reinterpret_cast<const char*>(mapped), n);
  std::free(mapped);
}

}  // namespace

size_t Utf8SequenceLength(absl::string_view bytes) {
  if (bytes.empty()) return 0;
  const LeadRule rule = RuleOf(Byte(bytes, 0));
  return PlausibleLength(bytes, rule) == rule.length ? rule.length : 0;
}

size_t ValidUtf8Prefix(absl::string_view bytes) {
  size_t i = 0;
  while (true) {
    i += AsciiPrefix(bytes.substr(i));
    const size_t n = Utf8SequenceLength(bytes.substr(i));
    if (n == 0) return i;
    i += n;
  }
}

size_t CompleteUtf8Prefix(absl::string_view bytes) {
  const size_t from = bytes.size() < 3 ? 0 : bytes.size() - 3;
  for (size_t i = from; i < bytes.size(); ++i) {
    const LeadRule rule = RuleOf(Byte(bytes, i));
    const size_t there = bytes.size() - i;
    if (rule.length > there &&
        PlausibleLength(bytes.substr(i), rule) == there) {
      return i;
    }
  }
  return bytes.size();
}

bool IsTriviallyNormalized(NormalForm form, absl::string_view text) {
  if (form == NormalForm::kNone) return true;
  // Below U+0300 (lead bytes up to 0xCB) everything is its own NFC; the other
  // forms decompose parts of Latin-1.
  const uint8_t bound = form == NormalForm::kNfc ? 0xCC : 0x80;
  for (const char c : text) {
    if (static_cast<uint8_t>(c) >= bound) return false;
  }
  return true;
}

std::string NormalizeUtf8(NormalForm form, absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    if (valid > 0) AppendNormalized(form, text.substr(0, valid), &out);
    text.remove_prefix(valid);
    while (!text.empty() && Utf8SequenceLength(text) == 0) {
      out.push_back(text[0]);
      text.remove_prefix(1);
    }
  }
  return out;
}

std::string SanitizeUtf8(absl::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t valid = ValidUtf8Prefix(bytes);
    out.append(bytes.data(), valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    out.append("\xEF\xBF\xBD");
    const size_t bad = PlausibleLength(bytes, RuleOf(Byte(bytes, 0)));
    bytes.remove_prefix(bad == 0 ? 1 : bad);
  }
  return out;
}

}  // namespace dice
