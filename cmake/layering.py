"""Checks that every #include points at the same or a lower folder.

ORDER lists the folders from the lowest; a file may include its own folder and
the ones its row allows. The three roles meet only in proto/.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

BASE = ["proto", "common/base"]
LIGHT = [*BASE, "common/config", "common/metrics", "common/rpc", "common/text"]
COMMON = [*LIGHT, "common/tasks"]
MODEL = [*COMMON, "common/kernels", "common/model", "common/parallel"]

# folder -> what it may include besides itself
ALLOWED: dict[str, list[str]] = {
    "proto": [],
    "common/base": [],
    "common/config": BASE,
    "common/metrics": BASE,
    "common/rpc": BASE,
    "common/text": BASE,
    "common/tasks": LIGHT,
    "common/kernels": ["common/base"],
    "common/model": [*BASE, "common/kernels", "common/parallel"],
    "common/parallel": BASE,
    "learner": MODEL,
    "actor": MODEL,
    "evaluator/sandbox": BASE,
    "evaluator/emulate": BASE,
    "evaluator/compile": [*COMMON, "evaluator/sandbox", "evaluator/emulate"],
    "evaluator/oracle": [*COMMON, "evaluator/sandbox"],
    "evaluator/runner": [*COMMON, "evaluator/sandbox", "evaluator/emulate"],
    "evaluator/worker": [
        *COMMON,
        *(f"evaluator/{d}" for d in ("sandbox", "compile", "oracle", "runner")),
        "evaluator/emulate",
    ],
    "evaluator/pool": COMMON,
    "evaluator": [*COMMON, "evaluator/pool", "evaluator/worker"],
    # The command line: the judge alone, the supervisor of processes, views.
    "cli": [*COMMON, "evaluator/worker"],
}


def folder_of(path: str) -> str | None:
    """The longest known folder that `path` lies in."""
    hits = [f for f in ALLOWED if path.startswith(f + "/")]
    return max(hits, key=len, default=None)


def main() -> int:
    files = subprocess.run(
        ["git", "ls-files", "*.h", "*.cc", "*.cu"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    bad = []
    for name in files:
        here = folder_of(name)
        if here is None or name.startswith("tests/"):
            continue
        allowed = {here, *ALLOWED[here]}
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            hit = re.match(r'#include\s+["<]([\w/.]+)[">]', line)
            there = folder_of(hit[1]) if hit else None
            if there and there not in allowed:
                bad.append(f"{name}:{number}: {here} may not include {hit[1]}")
            if (
                name.endswith(".cu")
                and hit
                and re.match(r"(absl|torch|ATen|c10|google|grpcpp|proto)/", hit[1])
            ):
                bad.append(f"{name}:{number}: a .cu file includes {hit[1]}")
    print("\n".join(bad) or f"layering: {len(files)} files in order")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
