#include "common/model/safetensors.h"

#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace dice {
namespace {

using nlohmann::json;
// Keeps the order of the file.
using nlohmann::ordered_json;

// The limit of the reference implementation.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

struct DtypeName {
  const char* name;
  torch::ScalarType type;
};
constexpr DtypeName kDtypes[] = {
    {"F64", torch::kFloat64},   {"F32", torch::kFloat32},
    {"F16", torch::kFloat16},   {"BF16", torch::kBFloat16},
    {"I64", torch::kInt64},     {"I32", torch::kInt32},
    {"I16", torch::kInt16},     {"I8", torch::kInt8},
    {"U8", torch::kUInt8},      {"BOOL", torch::kBool}};

absl::Status Bad(const std::string& name, absl::string_view reason) {
  return absl::InvalidArgumentError(
      absl::StrCat("safetensors: tensor '", name, "': ", reason));
}

absl::StatusOr<torch::ScalarType> TypeOf(const std::string& name,
                                         const ordered_json& entry) {
  const auto it = entry.find("dtype");
  if (it == entry.end() || !it->is_string()) return Bad(name, "no dtype");
  for (const DtypeName& d : kDtypes) {
    if (*it == d.name) return d.type;
  }
  return Bad(name, absl::StrCat("unknown dtype ", it->get<std::string>()));
}

// Non-negative integers that fit, or nullopt.
std::optional<std::vector<int64_t>> Integers(const ordered_json& entry,
                                             const char* key) {
  const auto it = entry.find(key);
  if (it == entry.end() || !it->is_array()) return std::nullopt;
  std::vector<int64_t> out;
  for (const auto& v : *it) {
    if (!v.is_number_unsigned()) return std::nullopt;
    const uint64_t u = v.get<uint64_t>();
    if (u > uint64_t{1} << 60) return std::nullopt;
    out.push_back(static_cast<int64_t>(u));
  }
  return out;
}

absl::StatusOr<torch::Tensor> ReadTensor(const std::string& name,
                                         const ordered_json& entry,
                                         absl::string_view data,
                                         std::map<int64_t, int64_t>& used) {
  if (!entry.is_object()) return Bad(name, "entry is not an object");
  DICE_ASSIGN_OR_RETURN(const torch::ScalarType type, TypeOf(name, entry));
  const auto shape = Integers(entry, "shape");
  if (!shape.has_value()) return Bad(name, "bad shape");
  const auto range = Integers(entry, "data_offsets");
  if (!range.has_value() || range->size() != 2) {
    return Bad(name, "bad data_offsets");
  }
  const int64_t begin = (*range)[0], end = (*range)[1];
  if (begin > end || end > static_cast<int64_t>(data.size())) {
    return Bad(name, absl::StrCat("bytes [", begin, ", ", end,
                                  ") lie outside the data of ", data.size(),
                                  " bytes (truncated file?)"));
  }
  int64_t bytes = static_cast<int64_t>(torch::elementSize(type));
  for (int64_t d : *shape) {
    if (__builtin_mul_overflow(bytes, d, &bytes)) {
      return Bad(name, "shape overflows");
    }
  }
  if (bytes != end - begin) {
    return Bad(name, absl::StrCat("shape needs ", bytes, " bytes, has ",
                                  end - begin));
  }
  if (bytes > 0) {
    const auto next = used.lower_bound(begin);
    const bool hits_next = next != used.end() && next->first < end;
    const bool hits_previous =
        next != used.begin() && std::prev(next)->second > begin;
    if (hits_next || hits_previous) return Bad(name, "overlaps another tensor");
    used[begin] = end;
  }
  torch::Tensor t = torch::empty(*shape, torch::TensorOptions().dtype(type));
  std::memcpy(t.data_ptr(), data.data() + begin, bytes);
  return t;
}

}  // namespace

absl::StatusOr<std::string> SerializeSafetensors(const NamedTensors& tensors) {
  ordered_json header = ordered_json::object();
  std::vector<torch::Tensor> flat;
  int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const char* dtype = nullptr;
    for (const DtypeName& d : kDtypes) {
      if (d.type == tensor.scalar_type()) dtype = d.name;
    }
    if (dtype == nullptr) return Bad(name, "dtype has no safetensors name");
    flat.push_back(tensor.detach().to(torch::kCPU).contiguous());
    const int64_t end = offset + static_cast<int64_t>(flat.back().nbytes());
    header[name] = {{"dtype", dtype},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t n = text.size();
  std::string out(reinterpret_cast<const char*>(&n), sizeof(n));
  out.reserve(out.size() + n + offset);
  out += text;
  for (const torch::Tensor& t : flat) {
    out.append(static_cast<const char*>(t.data_ptr()), t.nbytes());
  }
  return out;
}

absl::StatusOr<NamedTensors> ParseSafetensors(absl::string_view file) {
  uint64_t n = 0;
  if (file.size() < sizeof(n)) {
    return absl::InvalidArgumentError("safetensors: shorter than 8 bytes");
  }
  std::memcpy(&n, file.data(), sizeof(n));
  if (n > kMaxHeaderBytes || n > file.size() - sizeof(n)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "safetensors: header of ", n, " bytes in a file of ", file.size()));
  }
  const absl::string_view text = file.substr(sizeof(n), n);
  const absl::string_view data = file.substr(sizeof(n) + n);
  const ordered_json header =
      ordered_json::parse(text.begin(), text.end(), nullptr, false);
  if (!header.is_object()) {
    return absl::InvalidArgumentError("safetensors: header is not JSON");
  }
  NamedTensors out;
  std::map<int64_t, int64_t> used;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    DICE_ASSIGN_OR_RETURN(torch::Tensor t, ReadTensor(name, entry, data, used));
    out.emplace_back(name, std::move(t));
  }
  return out;
}

}  // namespace dice
