// UTF-8 facts that the tokenizer needs. All functions are pure and accept any
// bytes: what is not UTF-8 is never an error, it is kept or replaced as stated.
#ifndef DICE_COMMON_TEXT_UNICODE_H_
#define DICE_COMMON_TEXT_UNICODE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace dice {

// Bytes of the well-formed sequence at the front of `bytes` (no surrogates, no
// overlong forms, at most U+10FFFF); 0 if there is none.
size_t Utf8SequenceLength(absl::string_view bytes);

// Length of the longest valid prefix of `bytes`; SIZE = all of it.
size_t ValidUtf8Prefix(absl::string_view bytes);

// Length of `bytes` without a sequence that its end cuts short, so that a
// stream can show what is complete and keep the rest. Bytes that no
// continuation can make valid count as complete.
size_t CompleteUtf8Prefix(absl::string_view bytes);

enum class NormalForm { kNone, kNfc, kNfd, kNfkc, kNfkd };

// True when `text` is certainly already in `form` (a quick check; false says
// nothing).
bool IsTriviallyNormalized(NormalForm form, absl::string_view text);
// `text` in `form`. Invalid bytes are copied; the valid stretches between them
// are normalised one by one.
std::string NormalizeUtf8(NormalForm form, absl::string_view text);

}  // namespace dice

#endif  // DICE_COMMON_TEXT_UNICODE_H_
