"""The fuzzing run: ``python -m fuzz [--executions N] [--jobs N] [--target NAME]``.

The executions are divided among the targets by what each costs, and each target's among slices:
libFuzzer processes of a few hundred thousand executions that share one corpus. The first slice of
a target is deep (every module instrumented, values compared, long inputs), the others are light.

Exit codes: 0 nothing was found, 1 a crash, a hang or too much memory, 2 no atheris.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec

from .seeds import SEEDS, write_corpus, write_dictionary

BASE = ".fuzz"
CORPUS = os.path.join(BASE, "corpus")
FINDINGS = os.path.join(BASE, "findings")
STALLED = os.path.join(BASE, "stalled")
DICTIONARY = os.path.join(BASE, "json.dict")
HISTORY = os.path.join(BASE, "history.jsonl")

SHARES = {"decoder": 0.8, "salvage": 0.14, "reader": 0.06}
SLICE = 500_000
DEEP_SLICE = 50_000
LONGEST = {"deep": 2560, "light": 400}
HANG_SECONDS = 10
MEMORY_MB = 1024
_MOST_STARTS = 8


@dataclass(slots=True)
class Slice:
    """A part of a target's executions, and what came of it."""

    target: str
    depth: str
    wanted: int
    done: int = 0
    seconds: float = 0.0
    fatal: str = ""


def main() -> int:
    options = _options()
    if find_spec("atheris") is None:
        print("error: atheris is not installed\nhint: run: make fuzz", file=sys.stderr)
        return 2
    targets = list(SHARES) if options.target == "all" else [options.target]
    for number in (signal.SIGINT, signal.SIGTERM):  # Also in the background, where one is ignored.
        signal.signal(number, signal.default_int_handler)
    _prepare(targets)
    slices = _plan(targets, options.executions)
    started = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        running = [pool.submit(_run, part) for part in slices]
        try:
            for number, finished in enumerate(as_completed(running), 1):
                _say_progress(finished.result(), number, len(slices))
        except KeyboardInterrupt:  # What was done so far is reported and counted.
            _stop()
    elapsed = time.monotonic() - started
    stalled = _set_aside_stalls()
    findings = sorted(n for n in os.listdir(FINDINGS) if not n.endswith(".txt"))
    hangs = [n for n in findings if re.search("-(timeout|slow-unit|oom)-", n)]
    _print_targets(targets, slices, findings)
    _print_coverage()
    _print_findings(findings)
    broken = [f"{s.target}: {s.fatal}" for s in slices if s.fatal]
    for line in broken:
        print(f"a process ended early: {line}")
    if stalled:
        print(f"{stalled} inputs stalled once and took no time when tried again: no hangs")
    total = sum(s.done for s in slices)
    crashes = len(findings) - len(hangs)
    _record(options, slices, elapsed, crashes, len(hangs))
    print(f"\n{total:,} executions in {elapsed:,.0f} s: {crashes} crashes, {len(hangs)} hangs")
    print(f"{_cumulative():,} executions in all runs so far")
    return 1 if findings or broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--executions", type=int, default=10_000_000, metavar="N")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    parser.add_argument("--target", choices=[*SHARES, "all"], default="all")
    return parser.parse_args()


def _prepare(targets: list[str]) -> None:
    """Write the seeds, and let what was found before be tried again."""
    os.makedirs(FINDINGS, exist_ok=True)
    for target in targets:
        write_corpus(os.path.join(CORPUS, target), target)
    for name in os.listdir(FINDINGS):
        path = os.path.join(FINDINGS, name)
        target = name.split("-")[0]
        if target in SEEDS and not name.endswith(".txt"):
            os.makedirs(os.path.join(CORPUS, target), exist_ok=True)
            shutil.copyfile(path, os.path.join(CORPUS, target, f"found-{name}"))
        if target in targets:
            os.unlink(path)
    write_dictionary(DICTIONARY)


def _plan(targets: list[str], executions: int) -> list[Slice]:
    whole = sum(SHARES[target] for target in targets)
    plans = []
    for target in targets:
        left = round(executions * SHARES[target] / whole)
        deep = min(DEEP_SLICE, left // 4)
        parts = [Slice(target, "deep", deep)] if deep else []
        left -= deep
        while left > 0:
            parts.append(Slice(target, "light", min(SLICE, left)))
            left -= SLICE
        plans.append(parts)
    longest = max(len(parts) for parts in plans)
    # Round robin, so that a run cut short has tried everything.
    return [parts[at] for at in range(longest) for parts in plans if at < len(parts)]


_stopping = threading.Event()
_processes: set[subprocess.Popen] = set()


def _stop() -> None:
    _stopping.set()
    for process in list(_processes):
        process.send_signal(signal.SIGINT)


def _run(part: Slice) -> Slice:
    """Run one slice; a process that a hang or a full memory ended is started again."""
    began = time.monotonic()
    for _ in range(_MOST_STARTS):
        if _stopping.is_set() or part.done >= part.wanted:
            break
        process = subprocess.Popen(
            _command(part),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        _processes.add(process)
        _, told = process.communicate()
        _processes.discard(process)
        part.done += _executions(told)
        if process.returncode and "SUMMARY: libFuzzer" not in told and not _stopping.is_set():
            part.fatal = " | ".join(told.splitlines()[-4:])  # It did not even begin.
            break
    part.seconds = time.monotonic() - began
    return part


def _command(part: Slice) -> list[str]:
    return [
        *(sys.executable, "-m", "fuzz.worker", part.target, part.depth, FINDINGS),
        f"-runs={part.wanted - part.done}",
        f"-max_len={LONGEST[part.depth]}",
        f"-dict={DICTIONARY}",
        f"-timeout={HANG_SECONDS}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-artifact_prefix={FINDINGS}{os.sep}{part.target}-",
        "-len_control=0",
        "-entropic_scale_per_exec_time=1",
        "-print_final_stats=1",
        os.path.join(CORPUS, part.target),
    ]


def _set_aside_stalls() -> int:
    """Try every hang again; one that was the machine's, not ours, is no finding. Count those."""
    stalled = 0
    for name in os.listdir(FINDINGS):
        path = os.path.join(FINDINGS, name)
        if "-timeout-" not in name and "-slow-unit-" not in name:
            continue
        command = [sys.executable, "-m", "fuzz.worker", name.split("-")[0], "light", FINDINGS]
        again = subprocess.run(
            [*command, f"-timeout={HANG_SECONDS}", path], capture_output=True, check=False
        )
        if again.returncode == 0:
            os.makedirs(STALLED, exist_ok=True)
            os.replace(path, os.path.join(STALLED, name))
            stalled += 1
    return stalled


def _executions(output: str) -> int:
    found = re.search(r"number_of_executed_units:\s*(\d+)", output)
    if found:
        return int(found[1])
    pulses = re.findall(r"^#(\d+)\t", output, re.MULTILINE)
    return int(pulses[-1]) if pulses else 0


def _say_progress(part: Slice, number: int, of: int) -> None:
    speed = part.done / part.seconds if part.seconds else 0
    print(
        f"[{number}/{of}] {part.target} {part.depth}: {part.done:,} executions, {speed:,.0f}/s",
        flush=True,
    )


def _print_targets(targets: list[str], slices: list[Slice], findings: list[str]) -> None:
    print(
        f"\n{'target':<10}{'executions':>12}{'per second':>12}{'inputs kept':>13}{'findings':>10}"
    )
    for target in targets:
        mine = [s for s in slices if s.target == target]
        done = sum(s.done for s in mine)
        speed = done / max(sum(s.seconds for s in mine), 0.001)
        kept = len(os.listdir(os.path.join(CORPUS, target)))
        found = sum(name.startswith(f"{target}-") for name in findings)
        print(f"{target:<10}{done:>12,}{speed:>12,.0f}{kept:>13,}{found:>10}")


def _print_coverage() -> None:
    """Run the corpus once more, uninstrumented, and print what it reaches of our own modules."""
    ended = subprocess.run(
        [sys.executable, "-m", "fuzz.covered", CORPUS], capture_output=True, text=True, check=False
    )
    if ended.returncode:
        print(f"no coverage: {ended.stderr.splitlines()[-1:]}")
        return
    report = {name: counts for name, counts in json.loads(ended.stdout).items() if counts[1]}
    report["all of these"] = [sum(column) for column in zip(*report.values(), strict=True)]
    print(f"\n{'module':<36}{'lines':>14}{'branches':>16}")
    for name, (lines, of_lines, ways, of_ways) in report.items():
        share = f"{100 * ways / of_ways:>5.0f} %" if of_ways else f"{'-':>7}"
        print(
            f"{name:<36}{lines:>5}/{of_lines:<4}{100 * lines / of_lines:>4.0f} %"
            f"{ways:>6}/{of_ways:<4}{share}"
        )


def _print_findings(findings: list[str]) -> None:
    for name in findings:
        path = os.path.join(FINDINGS, name)
        print(f"\n{path}")
        try:
            with open(f"{path}.txt", encoding="utf-8") as file:
                print(file.read().strip())
        except FileNotFoundError:
            print("(a hang, or too much memory)")


def _record(
    options: argparse.Namespace, slices: list[Slice], elapsed: float, crashes: int, hangs: int
) -> None:
    """Append this run to the history; the sum over all runs is what a release asks for."""
    totals = {t: sum(s.done for s in slices if s.target == t) for t in {s.target for s in slices}}
    run = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "executions": sum(totals.values()),
        "targets": dict(sorted(totals.items())),
        "jobs": options.jobs,
        "elapsed_s": round(elapsed, 1),
        "crashes": crashes,
        "hangs": hangs,
    }
    with open(HISTORY, "a", encoding="ascii") as file:
        file.write(json.dumps(run) + "\n")


def _cumulative() -> int:
    with open(HISTORY, encoding="ascii") as file:
        return sum(json.loads(line)["executions"] for line in file)


if __name__ == "__main__":
    sys.exit(main())
