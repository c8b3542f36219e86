"""The fault campaign: trains while processes of the run are killed or frozen.

Starts `dice train`, kills (SIGKILL) or freezes (SIGSTOP, later SIGCONT) its
children at seeded random moments, and then asks of the run folder:

  - did the run end well, and is nothing of it left running;
  - is every step of every stage in metrics.jsonl exactly once, in order;
  - is every rollout counted once, with a verdict or an infra_error, never both;
  - did the evaluator give up nothing that it should have retried.

Exit code 0: all of it holds. 1: something does not. 2: usage.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import uuid

ROLES = ("worker", "actor", "pool", "learner")
MARK = "DICE_CHAOS_RUN"


@dataclasses.dataclass(frozen=True)
class Child:
    name: str  # "worker-0", "learner-1", "pool"
    pid: int
    age_s: float

    @property
    def role(self) -> str:
        return self.name.split("-")[0]


def read_bytes(path: str) -> bytes:
    """The file's bytes, or none when the process is gone."""
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def age_seconds(pid: int) -> float:
    fields = read_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 20:
        return 0.0
    uptime = float(read_bytes("/proc/uptime").split()[0])
    return uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def child_name(pid: int) -> str | None:
    argv = read_bytes(f"/proc/{pid}/cmdline").split(b"\0")
    binary = os.path.basename(argv[0])
    if binary == b"dice-learner":
        environ = read_bytes(f"/proc/{pid}/environ").split(b"\0")
        ranks = [e[5:] for e in environ if e.startswith(b"RANK=")]
        return "learner-" + (ranks[0].decode() if ranks else "0")
    if binary not in (b"dice-actor", b"dice-evaluator"):
        return None
    if b"pool" in argv:
        return "pool"
    return argv[argv.index(b"--name") + 1].decode() if b"--name" in argv else None


def children(supervisor: int) -> list[Child]:
    pids = read_bytes(f"/proc/{supervisor}/task/{supervisor}/children").split()
    out = []
    for pid in map(int, pids):
        name = child_name(pid)
        if name is not None:
            out.append(Child(name, pid, age_seconds(pid)))
    return sorted(out, key=lambda c: c.name)


def marked_processes(mark: str) -> list[int]:
    """Every living process that inherited the mark of this campaign."""
    out = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        marked = f"{MARK}={mark}".encode() in read_bytes(f"{entry}/environ").split(b"\0")
        if marked and read_bytes(f"{entry}/cmdline"):  # a zombie has none
            out.append(int(entry.name))
    return out


class Campaign:
    """One run with its faults."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rng = random.Random(options.seed)
        self.mark = uuid.uuid4().hex
        self.faults: list[tuple[float, str, str]] = []
        self.started = time.monotonic()
        self.frozen: list[tuple[float, int]] = []

    def command(self) -> list[str]:
        o = self.options
        sets = [flag for s in o.set for flag in ("--set", s)]
        return [
            str(o.build_dir / "cli/dice"),
            "train",
            "--config",
            str(o.config),
            "--run-dir",
            str(o.run_dir),
            *sets,
        ]

    def pick(self, supervisor: int) -> Child | None:
        """A child that is past its start; all roles are equally likely."""
        alive = [c for c in children(supervisor) if c.age_s > self.options.min_age]
        roles = sorted({c.role for c in alive} & set(self.options.roles.split(",")))
        if not roles:
            return None
        role = self.rng.choice(roles)
        return self.rng.choice([c for c in alive if c.role == role])

    def strike(self, child: Child) -> None:
        freeze = self.rng.random() < self.options.freeze
        at = time.monotonic() - self.started
        self.faults.append((round(at, 1), "freeze" if freeze else "kill", child.name))
        print(f"[{at:7.1f} s] {self.faults[-1][1]} {child.name}", flush=True)
        os.kill(child.pid, signal.SIGSTOP if freeze else signal.SIGKILL)
        if freeze:
            self.frozen.append((time.monotonic() + self.options.freeze_s, child.pid))

    def thaw(self, everything: bool = False) -> None:
        now = time.monotonic()
        for at, pid in list(self.frozen):
            if everything or now >= at:
                self.frozen.remove((at, pid))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def run(self) -> int:
        """Runs to the end; the exit code of `dice train`, -1 after a timeout."""
        o = self.options
        env = {**os.environ, MARK: self.mark}
        log = o.run_dir.with_suffix(".chaos.log")
        log.parent.mkdir(parents=True, exist_ok=True)
        with (
            log.open("wb") as out,
            subprocess.Popen(
                self.command(), stdout=out, stderr=subprocess.STDOUT, env=env
            ) as train,
        ):
            next_fault = time.monotonic() + self.interval()
            while train.poll() is None:
                now = time.monotonic()
                if now - self.started > o.limit_s:
                    train.kill()
                    train.wait()
                    return -1
                self.thaw()
                if now >= next_fault and len(self.faults) < o.kills:
                    child = self.pick(train.pid)
                    if child is not None:
                        self.strike(child)
                        next_fault = now + self.interval()
                time.sleep(0.1)
            self.thaw(everything=True)
            return train.returncode

    def interval(self) -> float:
        return self.options.every_s * self.rng.uniform(0.5, 1.5)


def read_jsonl(path: pathlib.Path) -> list[dict]:
    with path.open() as lines:
        return [json.loads(line) for line in lines]


def check_steps(run_dir: pathlib.Path) -> list[str]:
    """Every step of every stage once and in order, versions never fall."""
    config = (run_dir / "config.pbtxt").read_text()
    stages = re.findall(r'^stages \{\n  name: "(\w+)"\n  steps: (\d+)', config, re.M)
    wanted = [(name, s + 1) for name, steps in stages for s in range(int(steps))]
    rows = read_jsonl(run_dir / "metrics.jsonl")
    seen = [(row["stage"], row["step"]) for row in rows]
    problems = []
    if seen != wanted:
        twice = [s for s, n in collections.Counter(seen).items() if n > 1]
        missing = sorted(set(wanted) - set(seen))
        problems.append(
            f"metrics.jsonl: {len(seen)} rows for {len(wanted)} steps; "
            f"twice: {twice[:5]}, missing: {missing[:5]}"
        )
    versions = [row["policy_version"] for row in rows]
    if versions != sorted(versions):
        problems.append("metrics.jsonl: the policy version falls")
    return problems


def check_rollouts(run_dir: pathlib.Path) -> tuple[list[str], dict[str, int]]:
    """Each sample once; a failure of ours is never a verdict."""
    problems = []
    counts: collections.Counter[str] = collections.Counter()
    for path in sorted((run_dir / "rollouts").glob("*.jsonl")):
        seen = set()
        for rollout in read_jsonl(path):
            # Greedy and drawn samples of an evaluation have leases of their own.
            key = (rollout["lease_id"], rollout.get("sample_index", 0))
            if key in seen:
                problems.append(f"{path.name}: {key} is there twice")
            seen.add(key)
            verdict = rollout.get("verdict")
            infra = rollout.get("infra_error", "")
            counts["rollouts"] += 1
            counts["lost"] += verdict is None
            if (verdict is None) == (not infra):
                problems.append(f"{path.name}: {key} has verdict and error, or neither")
            if verdict is None and "reward" in rollout:
                problems.append(f"{path.name}: {key} is lost, yet has a reward")
            if verdict is not None and "outcome" not in verdict:
                problems.append(f"{path.name}: {key} has a verdict without outcome")
    return problems[:10], dict(counts)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = pathlib.Path
    parser.add_argument("--build-dir", type=path, default=path("build/release"))
    parser.add_argument("--config", type=path, default=path("deploy/quickstart/config.pbtxt"))
    parser.add_argument("--run-dir", type=path, default=path("runs/chaos"))
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c")
    parser.add_argument("--kills", type=int, default=10, help="faults in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every-s", type=float, default=6, help="mean distance")
    parser.add_argument("--roles", default=",".join(ROLES))
    parser.add_argument("--freeze", type=float, default=0.2, help="share of faults that freeze")
    parser.add_argument("--freeze-s", type=float, default=8)
    parser.add_argument("--min-age", type=float, default=3, help="seconds, of a victim")
    parser.add_argument("--limit-s", type=float, default=1800)
    parser.add_argument("--json", type=path, help="write the summary there")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    options = parse(argv)
    campaign = Campaign(options)
    code = campaign.run()
    problems = [] if code == 0 else [f"dice train ended with {code}"]
    deadline = time.monotonic() + 10
    while (left := marked_processes(campaign.mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    if left:
        problems.append(f"{len(left)} processes are left: {left}")
    counts: dict[str, int] = {}
    if code == 0:
        problems += check_steps(options.run_dir)
        more, counts = check_rollouts(options.run_dir)
        problems += more
        if len(campaign.faults) < options.kills:
            print(f"note: the run ended after {len(campaign.faults)} faults")
    summary = {
        "ok": not problems,
        "seed": options.seed,
        "seconds": round(time.monotonic() - campaign.started, 1),
        "faults": campaign.faults,
        **counts,
        "problems": problems,
    }
    if options.json:
        options.json.write_text(json.dumps(summary, indent=2) + "\n")
    print(json.dumps(summary))
    if problems:
        print(f"logs: {options.run_dir}/logs", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
