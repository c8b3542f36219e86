"""Prints HF's ids of every text of a task set, one JSON list a line.

usage: encode_tasks.py TOKENIZER_JSON TASKS.jsonl.gz
Per task: prompt, infill_prompt, then prefix, middle, suffix of each solution.
"""

from __future__ import annotations

import gzip
import json
import sys

from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file(sys.argv[1])
with gzip.open(sys.argv[2], "rt") as tasks:
    for line in tasks:
        task = json.loads(line)
        texts = [task["prompt"], task["infill_prompt"]]
        for solution in task["solutions"]:
            texts += [solution["scaffold"][part] for part in ("prefix", "middle", "suffix")]
        for text in texts:
            print(json.dumps(tokenizer.encode(text, add_special_tokens=False).ids))
