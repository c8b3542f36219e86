"""Trains the quickstart's tokenizer: byte-level BPE whose pieces are statements.

usage: train_tokenizer.py TASKS.jsonl.gz OUT_DIR [--vocab 1100]

Text is split at newlines and before each "@op" of a prompt, so that a frequent
statement becomes one token: a tiny model can then write a kernel in some ten
tokens. Any other bytes still encode, only longer.
"""

from __future__ import annotations

import argparse
import gzip
import json
import pathlib
import statistics

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SPLIT = r"@[a-z0-9]+|[^\n@]*\n|[^\n@]+"
SPECIAL = ["<|endoftext|>", "<|im_end|>", "<|mask|>"]


def read_tasks(path: pathlib.Path) -> list[dict]:
    with gzip.open(path, "rt") as f:
        return [json.loads(line) for line in f]


def corpus(tasks: list[dict]) -> list[str]:
    """Every text that the policy reads or writes, of the training problems."""
    texts = []
    for task in tasks:
        if task["split"] == "train":
            texts += [task["prompt"], task["infill_prompt"]]
            texts += [s["response"] for s in task["solutions"]]
    return texts


def train(texts: list[str], vocab: int) -> Tokenizer:
    out = Tokenizer(models.BPE())
    out.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    out.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    out.train_from_iterator(texts, trainer)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--vocab", type=int, default=1100)
    args = parser.parse_args()
    tasks = read_tasks(args.tasks)
    tokenizer = train(corpus(tasks), args.vocab)
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(args.out / "tokenizer.json"))
    middles = [
        len(tokenizer.encode(s["scaffold"]["middle"]).ids) for t in tasks for s in t["solutions"]
    ]
    prompts = [len(tokenizer.encode(t["prompt"]).ids) for t in tasks]
    print(
        f"vocabulary {tokenizer.get_vocab_size()}; tokens: prompt median "
        f"{statistics.median(prompts)} max {max(prompts)}; middle median "
        f"{statistics.median(middles)} max {max(middles)}"
    )


if __name__ == "__main__":
    main()
