"""Writes what HF `tokenizers` makes of seeded texts, for the C++ side to equal.

usage: hf_oracle.py OUT_DIR LINES [TOKENIZER_DIR]

Without TOKENIZER_DIR it trains three byte-level BPEs (Qwen2's and GPT-2's
pre-tokenisation, and one split at statements) on generated text and leaves
OUT_DIR/<name>/tokenizer.json with OUT_DIR/<name>/cases.jsonl beside it: one
{"text", "ids", "decoded"} or {"ids", "decoded"} a line.
"""

from __future__ import annotations

import json
import pathlib
import random
import sys
import unicodedata
from collections.abc import Iterator

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"]

WORDS = [
    "the",
    "kernel",
    "writes",
    "each",
    "output",
    "once",
    "don't",
    "they'll",
    "we've",
    "I'm",
    "he'd",
    "IT'S",
    "schön",
    "naïve",
    "café",
    "Ångström",
    "über",
    "señor",
    "ключ",
    "память",
    "поток",
    "线程",
    "共享内存",
    "核函数",
    "カーネル",
    "スレッド",
    "메모리",
    "커널",
    "नमस्ते",
    "ذاكرة",
    "שלום",
    "ไทย",
    "tiếng",
    "Việt",
    "ｆｕｌｌ",
    "ﬁne",
    "ǅ",
    "ſ",
    "K",
]
CODE = [
    "int",
    "float",
    "const",
    "blockIdx.x",
    "threadIdx.y",
    "__global__",
    "void",
    "for",
    "if",
    "return",
    "+=",
    "->",
    "==",
    "&&",
    "||",
    "<<<",
    ">>>",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ";",
    ",",
    "*",
    "+",
    "/",
    "%",
    "0",
    "1",
    "32",
    "1e-6f",
    "0x1F",
    "i",
    "j",
    "acc",
    "x[i]",
    "#include",
    "<torch/extension.h>",
    "//",
    "/*",
    "*/",
    '"a\\n"',
    "torch::Tensor",
    "std::max",
]
SPACES = [
    " ",
    "  ",
    "    ",
    "\t",
    "\n",
    "\r\n",
    "\n\n",
    " \n ",
    "\u00a0",
    "\u2003",
    "\u3000",
    "\u0085",
    "\u180e",
    "\u200b",
]
MARKS = "\u0301\u0308\u0323\u031b\u0e49\u093c\u05b4\u3099\u200d\ufe0f"
ASSIGNED = [
    chr(c)
    for c in range(0x20000)
    # Composition and classes of later versions differ between libraries.
    if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs")
    and unicodedata.category(chr(c)) == unicodedata.ucd_3_2_0.category(chr(c))
]


def line(rng: random.Random) -> str:
    """One text: code, prose, random Unicode, or a mixture."""
    kind = rng.randrange(5)
    parts: list[str] = []
    for _ in range(rng.randint(0, 24)):
        pick = kind if kind < 3 else rng.randrange(3)
        if pick == 0:
            parts += [rng.choice(CODE), rng.choice(["", " ", " ", "\n    "])]
        elif pick == 1:
            parts += [rng.choice(WORDS), rng.choice([" ", " ", ", ", ".\n"])]
        else:
            parts += [rng.choice(ASSIGNED) for _ in range(rng.randint(1, 4))]
        if rng.random() < 0.12:
            parts.append(rng.choice(SPACES) * rng.randint(1, 3))
        if rng.random() < 0.08:
            parts.append(rng.choice(MARKS))
        if rng.random() < 0.03:
            parts.append(rng.choice([*SPECIAL, "<|im_", "<|im_end|", "<think>"]))
        if rng.random() < 0.01:
            parts.append(rng.choice("ax= -\n字") * rng.randint(30, 200))
    return "".join(parts)


def trained(
    split: list, normalizer: normalizers.Normalizer | None, vocab: int, texts: list[str]
) -> Tokenizer:
    out = Tokenizer(models.BPE())
    if normalizer:
        out.normalizer = normalizer
    out.pre_tokenizer = pre_tokenizers.Sequence(split)
    out.decoder = decoders.ByteLevel()
    out.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocab,
            special_tokens=SPECIAL,
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    # Not special: matched after normalisation.
    out.add_tokens([AddedToken("<think>", normalized=True), AddedToken("é@", normalized=True)])
    return out


def from_folder(folder: pathlib.Path) -> Tokenizer:
    """As transformers' Qwen2TokenizerFast builds it from vocab and merges."""
    out = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    out.normalizer = normalizers.NFC()
    out.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    out.decoder = decoders.ByteLevel()
    config = json.loads((folder / "tokenizer_config.json").read_text())
    for spec in config["added_tokens_decoder"].values():
        token = AddedToken(spec["content"], normalized=spec["normalized"], special=spec["special"])
        out.add_special_tokens([token]) if spec["special"] else out.add_tokens([token])
    return out


def cases(tokenizer: Tokenizer, lines: int, rng: random.Random) -> Iterator[dict]:
    texts = [line(rng) for _ in range(lines)]
    for text, code in zip(
        texts, tokenizer.encode_batch(texts, add_special_tokens=False), strict=True
    ):
        decoded = tokenizer.decode(code.ids, skip_special_tokens=False)
        yield {"text": text, "ids": code.ids, "decoded": decoded}
    size = tokenizer.get_vocab_size()
    for _ in range(lines // 10):  # arbitrary ids: the bytes need not be UTF-8
        ids = [rng.randrange(size) for _ in range(rng.randint(1, 12))]
        yield {"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)}


def main() -> None:
    out, lines = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(20260131)
    made: dict[str, Tokenizer] = {}
    if len(sys.argv) > 3:
        made["given"] = from_folder(pathlib.Path(sys.argv[3]))
    else:
        texts = [line(rng) for _ in range(3000)]
        bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        made["qwen2"] = trained(
            [pre_tokenizers.Split(Regex(QWEN2), "isolated"), bytes_only],
            normalizers.NFC(),
            1500,
            texts,
        )
        made["gpt2"] = trained([pre_tokenizers.ByteLevel(add_prefix_space=False)], None, 900, texts)
        made["statements"] = trained(
            [
                pre_tokenizers.Split(Regex(r"[^;{}\n]*[;{}]?\n|@[a-z]+|[^;{}\n@]+"), "isolated"),
                pre_tokenizers.Digits(individual_digits=True),
                bytes_only,
            ],
            normalizers.Sequence([normalizers.NFC()]),
            700,
            texts,
        )
    for name, tokenizer in made.items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer.save(str(folder / "tokenizer.json"))
        with (folder / "cases.jsonl").open("w") as f:
            for case in cases(tokenizer, lines, rng):
                f.write(json.dumps(case) + "\n")


if __name__ == "__main__":
    main()
