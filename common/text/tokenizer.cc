#include "common/text/tokenizer.h"

#include <array>
#include <filesystem>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/text/added_tokens.h"
#include "common/text/bpe.h"
#include "common/text/pre_tokenizer.h"
#include "common/text/unicode.h"
#include "nlohmann/json.hpp"

namespace dice {
namespace {

using nlohmann::json;

// GPT-2's alphabet: how the files spell a byte as a printable character.
class ByteAlphabet {
 public:
  ByteAlphabet() {
    int32_t extra = 256;
    for (int b = 0; b < 256; ++b) {
      const bool printable =
          (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      byte_of_[printable ? b : extra++] = static_cast<char>(b);
    }
  }
  // The bytes that `spelled` stands for; nullopt if a character of it is
  // outside the alphabet.
  std::optional<std::string> Bytes(absl::string_view spelled) const {
    std::string out;
    for (size_t i = 0; i < spelled.size();) {
      const size_t n = Utf8SequenceLength(spelled.substr(i));
      int32_t code = static_cast<uint8_t>(spelled[i]);
      if (n == 2) {
        code =
            (code & 0x1F) << 6 | (static_cast<uint8_t>(spelled[i + 1]) & 0x3F);
      }
      const auto it = byte_of_.find(code);
      if (n < 1 || n > 2 || it == byte_of_.end()) return std::nullopt;
      out.push_back(it->second);
      i += n;
    }
    return out;
  }

 private:
  absl::flat_hash_map<int32_t, char> byte_of_;
};

const ByteAlphabet& Alphabet() {
  static const ByteAlphabet& alphabet = *new ByteAlphabet;
  return alphabet;
}

struct AddedToken {
  int32_t id;
  std::string content;
  bool normalized = false;
};

// What the files say, before it is compiled.
struct Parts {
  NormalForm form = NormalForm::kNone;
  PreTokenizer pre_tokenizer;
  Bpe::Spec bpe;
  // Spelled with characters outside the alphabet: decodable, never produced.
  absl::flat_hash_map<std::string, int32_t> opaque;
  std::vector<AddedToken> added;
};

class ByteLevelTokenizer : public Tokenizer {
 public:
  ByteLevelTokenizer(Parts parts, Bpe bpe)
      : form_(parts.form),
        pre_tokenizer_(std::move(parts.pre_tokenizer)),
        bpe_(std::move(bpe)),
        opaque_(std::move(parts.opaque)) {
    for (const AddedToken& t : parts.added) {
      if (t.normalized) {
        normalized_.Add(NormalizeUtf8(form_, t.content), t.id);
      } else {
        raw_.Add(t.content, t.id);
      }
      added_ids_[t.content] = t.id;
    }
  }

  void SetBytes(int32_t id, std::string bytes) {
    if (id >= vocab_size()) bytes_.resize(id + 1);
    bytes_[id] = std::move(bytes);
  }

  std::vector<int32_t> Encode(absl::string_view text) const override {
    std::vector<int32_t> ids;
    ids.reserve(text.size() / 3);
    std::vector<absl::string_view> pieces;
    const auto push = [&](int32_t id) { ids.push_back(id); };
    const auto encode = [&](absl::string_view stretch) {
      pieces.clear();
      pre_tokenizer_.Split(stretch, &pieces);
      for (absl::string_view piece : pieces) bpe_.Encode(piece, &ids);
    };
    raw_.Scan(
        text,
        [&](absl::string_view stretch) {
          if (IsTriviallyNormalized(form_, stretch)) {
            normalized_.Scan(stretch, encode, push);
          } else {
            normalized_.Scan(NormalizeUtf8(form_, stretch), encode, push);
          }
        },
        push);
    return ids;
  }

  std::string Decode(std::span<const int32_t> ids) const override {
    std::string out;
    for (const int32_t id : ids) {
      if (id >= 0 && id < vocab_size()) out += bytes_[id];
    }
    return out;
  }

  std::optional<int32_t> TokenToId(absl::string_view token) const override {
    if (const auto it = added_ids_.find(token); it != added_ids_.end()) {
      return it->second;
    }
    if (const auto bytes = Alphabet().Bytes(token)) {
      const int32_t id = bpe_.Find(*bytes);
      return id < 0 ? std::nullopt : std::optional(id);
    }
    const auto it = opaque_.find(token);
    return it == opaque_.end() ? std::nullopt : std::optional(it->second);
  }

  int32_t vocab_size() const override {
    return static_cast<int32_t>(bytes_.size());
  }

 private:
  const NormalForm form_;
  const PreTokenizer pre_tokenizer_;
  const Bpe bpe_;
  const absl::flat_hash_map<std::string, int32_t> opaque_;
  AddedTokens raw_, normalized_;
  absl::flat_hash_map<std::string, int32_t> added_ids_;
  std::vector<std::string> bytes_;
};

absl::Status ReadNormalizer(const json& spec, NormalForm* form) {
  if (spec.is_null()) return absl::OkStatus();
  const std::string type = spec.at("type").get<std::string>();
  static const auto& kForms = *new absl::flat_hash_map<std::string, NormalForm>{
      {"NFC", NormalForm::kNfc},
      {"NFD", NormalForm::kNfd},
      {"NFKC", NormalForm::kNfkc},
      {"NFKD", NormalForm::kNfkd}};
  if (type == "Sequence" && spec.at("normalizers").size() <= 1) {
    for (const json& part : spec.at("normalizers")) {
      DICE_RETURN_IF_ERROR(ReadNormalizer(part, form));
    }
    return absl::OkStatus();
  }
  const auto it = kForms.find(type);
  if (it == kForms.end()) {
    return absl::UnimplementedError(absl::StrCat("normalizer ", type));
  }
  *form = it->second;
  return absl::OkStatus();
}

absl::StatusOr<AddedToken> ReadAddedToken(int32_t id, const json& spec) {
  AddedToken token{.id = id,
                   .content = spec.at("content").get<std::string>(),
                   .normalized = spec.value("normalized", false)};
  if (id < 0)
    return absl::InvalidArgumentError("an added token's id is negative");
  for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
    if (spec.value(flag, false)) {
      return absl::UnimplementedError(
          absl::StrCat("added token ", token.content, " with ", flag));
    }
  }
  return token;
}

absl::Status ReadVocab(const json& vocab, Parts* parts) {
  parts->bpe.vocab.reserve(vocab.size());
  for (const auto& [spelled, value] : vocab.items()) {
    const int32_t id = value.get<int32_t>();
    if (id < 0) {
      return absl::InvalidArgumentError(absl::StrCat("id of token ", spelled));
    }
    if (auto bytes = Alphabet().Bytes(spelled)) {
      parts->bpe.vocab[*bytes] = id;
    } else {
      parts->opaque[spelled] = id;
    }
  }
  return absl::OkStatus();
}

// `line` is "left right" as merges.txt and older tokenizer.json files have it.
absl::Status AddMerge(absl::string_view left, absl::string_view right,
                      Parts* parts) {
  auto l = Alphabet().Bytes(left), r = Alphabet().Bytes(right);
  if (!l || !r || l->empty() || r->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("merge \"", left, "\" \"", right, "\""));
  }
  parts->bpe.merges.emplace_back(*std::move(l), *std::move(r));
  return absl::OkStatus();
}

absl::Status AddMergeLine(absl::string_view line, Parts* parts) {
  const std::pair<absl::string_view, absl::string_view> two =
      absl::StrSplit(line, absl::MaxSplits(' ', 1));
  return AddMerge(two.first, two.second, parts);
}

absl::Status ReadModel(const json& model, Parts* parts) {
  const std::string type = model.value("type", "BPE");
  if (type != "BPE") {
    return absl::UnimplementedError(absl::StrCat("tokenizer model ", type));
  }
  for (const char* key : {"dropout", "continuing_subword_prefix",
                          "end_of_word_suffix", "byte_fallback"}) {
    const json value = model.value(key, json());
    if (value.is_null() || value == false || value == "" || value == 0.0)
      continue;
    return absl::UnimplementedError(absl::StrCat("BPE with ", key));
  }
  parts->bpe.ignore_merges = model.value("ignore_merges", false);
  DICE_RETURN_IF_ERROR(ReadVocab(model.at("vocab"), parts));
  if (!model.value("unk_token", json()).is_null()) {
    for (int b = 0; b < 256; ++b) {  // never needed when every byte is a token
      if (!parts->bpe.vocab.contains(std::string(1, static_cast<char>(b)))) {
        return absl::UnimplementedError("BPE with unk_token and missing bytes");
      }
    }
  }
  for (const json& merge : model.at("merges")) {
    if (merge.is_string()) {
      DICE_RETURN_IF_ERROR(AddMergeLine(merge.get<std::string>(), parts));
    } else {
      DICE_RETURN_IF_ERROR(AddMerge(merge.at(0).get<std::string>(),
                                    merge.at(1).get<std::string>(), parts));
    }
  }
  return absl::OkStatus();
}

// Whether the pieces end as bytes in the alphabet; without it the vocabulary
// is spelled some other way.
bool MentionsByteLevel(const json& spec) {
  if (spec.is_null()) return false;
  if (spec.at("type") == "ByteLevel") return true;
  for (const json& part : spec.value("pretokenizers", json::array())) {
    if (MentionsByteLevel(part)) return true;
  }
  return false;
}

absl::StatusOr<Parts> ReadTokenizerJson(const std::string& text) {
  Parts parts;
  const json root = json::parse(text);
  const json pre = root.value("pre_tokenizer", json());
  if (!MentionsByteLevel(pre)) {
    return absl::UnimplementedError("a pre_tokenizer without ByteLevel");
  }
  DICE_RETURN_IF_ERROR(
      ReadNormalizer(root.value("normalizer", json()), &parts.form));
  DICE_ASSIGN_OR_RETURN(parts.pre_tokenizer, PreTokenizer::FromJson(pre));
  DICE_RETURN_IF_ERROR(ReadModel(root.at("model"), &parts));
  for (const json& spec : root.value("added_tokens", json::array())) {
    DICE_ASSIGN_OR_RETURN(AddedToken token,
                          ReadAddedToken(spec.at("id").get<int32_t>(), spec));
    parts.added.push_back(std::move(token));
  }
  return parts;
}

// A folder of vocab.json + merges.txt says what it is in tokenizer_config.json;
// without one it is Qwen2's.
absl::Status ReadTokenizerConfig(const std::string& dir, Parts* parts) {
  json config = json::object();
  if (const auto text = ReadFile(JoinPath(dir, "tokenizer_config.json"));
      text.ok()) {
    config = json::parse(*text);
  } else if (!absl::IsNotFound(text.status())) {
    return text.status();
  }
  const std::string kind = config.value("tokenizer_class", "Qwen2Tokenizer");
  if (kind == "Qwen2Tokenizer" || kind == "Qwen2TokenizerFast") {
    parts->form = NormalForm::kNfc;
    parts->pre_tokenizer = PreTokenizer::Qwen2();
  } else if (kind == "GPT2Tokenizer" || kind == "GPT2TokenizerFast") {
    parts->pre_tokenizer = PreTokenizer::Gpt2();
  } else {
    return absl::UnimplementedError(absl::StrCat("tokenizer_class ", kind));
  }
  // As HF: this list, where there is one, replaces added_tokens.json.
  const json listed = config.value("added_tokens_decoder", json::object());
  for (const auto& [id, spec] : listed.items()) {
    DICE_ASSIGN_OR_RETURN(AddedToken token,
                          ReadAddedToken(std::stoi(id), spec));
    parts->added.push_back(std::move(token));
  }
  if (!listed.empty()) return absl::OkStatus();
  const auto text = ReadFile(JoinPath(dir, "added_tokens.json"));
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  DICE_RETURN_IF_ERROR(text.status());
  const json added = json::parse(*text);
  for (const auto& [content, id] : added.items()) {
    parts->added.push_back({.id = id.get<int32_t>(), .content = content});
  }
  return absl::OkStatus();
}

absl::StatusOr<Parts> ReadVocabAndMerges(const std::string& dir) {
  Parts parts;
  DICE_ASSIGN_OR_RETURN(const std::string vocab,
                        ReadFile(JoinPath(dir, "vocab.json")));
  DICE_ASSIGN_OR_RETURN(const std::string merges,
                        ReadFile(JoinPath(dir, "merges.txt")));
  DICE_RETURN_IF_ERROR(ReadVocab(json::parse(vocab), &parts)) << "vocab.json";
  bool first = true;
  for (absl::string_view line : absl::StrSplit(merges, '\n')) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const bool version = first && line.substr(0, 9) == "#version:";
    first = false;
    if (version || line.empty()) continue;
    DICE_RETURN_IF_ERROR(AddMergeLine(line, &parts)) << "merges.txt";
  }
  DICE_RETURN_IF_ERROR(ReadTokenizerConfig(dir, &parts));
  return parts;
}

absl::StatusOr<Parts> ReadParts(const std::string& dir) {
  // nlohmann and std::stoi throw on malformed files: caught here, nowhere else.
  try {
    const auto text = ReadFile(JoinPath(dir, "tokenizer.json"));
    if (text.ok()) {
      DICE_ASSIGN_OR_RETURN(Parts parts, ReadTokenizerJson(*text),
                            JoinPath(dir, "tokenizer.json"));
      return parts;
    }
    if (!absl::IsNotFound(text.status())) return text.status();
    DICE_ASSIGN_OR_RETURN(Parts parts, ReadVocabAndMerges(dir), dir);
    return parts;
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer files of ", dir, ": ", e.what()));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(
    const std::string& dir) {
  DICE_ASSIGN_OR_RETURN(Parts parts, ReadParts(dir));
  std::vector<std::pair<int32_t, std::string>> bytes;
  bytes.reserve(parts.bpe.vocab.size());
  for (const auto& [text, id] : parts.bpe.vocab) bytes.emplace_back(id, text);
  for (const auto& [text, id] : parts.opaque) bytes.emplace_back(id, text);
  for (const AddedToken& t : parts.added) {
    bytes.emplace_back(t.id, Alphabet().Bytes(t.content).value_or(t.content));
  }
  DICE_ASSIGN_OR_RETURN(Bpe bpe, Bpe::Create(std::move(parts.bpe)), dir);
  auto out =
      std::make_unique<ByteLevelTokenizer>(std::move(parts), std::move(bpe));
  for (auto& [id, text] : bytes) out->SetBytes(id, std::move(text));
  return out;
}

}  // namespace dice
