"""An independent SDAR forward in plain torch with a dense mask.

Usage: dense_reference.py MODEL_DIR IDS OUT_FILE, IDS = 1,2,3;4,5
Reads config.json and model.safetensors (its own parser) and writes the logits
[all L, V] as raw fp32.
"""

from __future__ import annotations

import json
import struct
import sys

import torch


def load(path: str) -> dict[str, torch.Tensor]:
    raw = open(path, "rb").read()
    (n,) = struct.unpack("<Q", raw[:8])
    out = {}
    for name, e in json.loads(raw[8 : 8 + n]).items():
        begin, end = e["data_offsets"]
        assert e["dtype"] == "F32"
        data = bytearray(raw[8 + n + begin : 8 + n + end])
        out[name] = torch.frombuffer(data, dtype=torch.float32).reshape(e["shape"])
    return out


def norm(x: torch.Tensor, w: torch.Tensor, eps: float) -> torch.Tensor:
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * w


def rotate(x: torch.Tensor, theta: float) -> torch.Tensor:
    """x [heads, L, D]; complex rotation of the pairs (i, i + D/2)."""
    d = x.shape[-1]
    pos = torch.arange(x.shape[1], dtype=torch.float32)
    freq = theta ** (-torch.arange(0, d, 2, dtype=torch.float32) / d)
    turn = torch.polar(torch.ones(x.shape[1], d // 2), torch.outer(pos, freq))
    z = torch.complex(x[..., : d // 2].contiguous(), x[..., d // 2 :].contiguous())
    z = z * turn
    return torch.cat([z.real, z.imag], -1)


def forward(c: dict, w: dict[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    block = torch.arange(len(ids)) // c["block_size"]
    visible = block[:, None] >= block[None, :]
    h, k, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    x = w["model.embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        n = norm(x, w[p + "input_layernorm.weight"], c["rms_norm_eps"])
        q, kk, v = (
            (n @ w[p + f"self_attn.{m}_proj.weight"].T).view(len(ids), -1, d).transpose(0, 1)
            for m in "qkv"
        )
        q = rotate(norm(q, w[p + "self_attn.q_norm.weight"], c["rms_norm_eps"]), c["rope_theta"])
        kk = rotate(norm(kk, w[p + "self_attn.k_norm.weight"], c["rms_norm_eps"]), c["rope_theta"])
        heads = []
        for head in range(h):
            s = q[head] @ kk[head // (h // k)].T / d**0.5
            s = s.masked_fill(~visible, float("-inf")).softmax(-1)
            heads.append(s @ v[head // (h // k)])
        x = x + torch.cat(heads, -1) @ w[p + "self_attn.o_proj.weight"].T
        n = norm(x, w[p + "post_attention_layernorm.weight"], c["rms_norm_eps"])
        gate = n @ w[p + "mlp.gate_proj.weight"].T
        up = n @ w[p + "mlp.up_proj.weight"].T
        x = x + (gate * torch.sigmoid(gate) * up) @ w[p + "mlp.down_proj.weight"].T
    x = norm(x, w["model.norm.weight"], c["rms_norm_eps"])
    return x @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


if __name__ == "__main__":
    folder, ids, out = sys.argv[1:]
    config = json.load(open(folder + "/config.json"))
    weights = load(folder + "/model.safetensors")
    logits = [
        forward(config, weights, torch.tensor([int(i) for i in sequence.split(",")]))
        for sequence in ids.split(";")
    ]
    open(out, "wb").write(torch.cat(logits).contiguous().numpy().tobytes())
