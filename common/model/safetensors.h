// The safetensors format: an 8-byte little-endian header length, a JSON header
// {name: {dtype, shape, data_offsets}}, then the bytes. Every byte of a file is
// untrusted.
#ifndef DICE_COMMON_MODEL_SAFETENSORS_H_
#define DICE_COMMON_MODEL_SAFETENSORS_H_

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dice {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// File bytes of `tensors` (CPU or moved there; made contiguous), in order.
// INVALID_ARGUMENT: a dtype that the format does not have.
absl::StatusOr<std::string> SerializeSafetensors(const NamedTensors& tensors);

// Tensors in file order, each its own copy on the CPU. INVALID_ARGUMENT names
// the tensor and the reason: truncated, overlapping or out-of-range offsets,
// unknown dtype, size that does not match the shape, header not JSON.
absl::StatusOr<NamedTensors> ParseSafetensors(absl::string_view file);

}  // namespace dice

#endif  // DICE_COMMON_MODEL_SAFETENSORS_H_
