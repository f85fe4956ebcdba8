"""The command: copy the tree, put in one defect, run the tests that must notice it, take it out again."""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.table import Mutation, table

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 300.0
"""For the tests of one mutation; a defect that makes them hang is noticed."""
KILLED, SURVIVED, UNCLEAR = "killed", "SURVIVED", "UNCLEAR"
MEMORY_BYTES = 3 << 30
"""For the data of each process that the tests start: a defect may make one collect for ever."""
_PASSED, _FAILED = 0, 1
"""Exit codes of pytest; every other one means that the tests were not run."""


def main(arguments: Sequence[str]) -> int:
    """Run the mutations that are asked for; 0 if each was killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("wanted", nargs="*", help="areas, requirements, parts of names; by default all")
    parser.add_argument("--list", action="store_true", help="show them, run nothing")
    parser.add_argument("--no-baseline", action="store_true", help="do not run the tests without a mutation first")
    chosen = parser.parse_args(arguments)
    mutations = table(chosen.wanted)
    if chosen.list:
        for one in mutations:
            print(f"{one.file}: {one.name} ({' '.join(one.reqs)})")
        return 0
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    with tempfile.TemporaryDirectory(prefix="mut-", dir="/tmp") as folder:
        return _run_all(mutations, Path(folder), baseline=not chosen.no_baseline)


def _run_all(mutations: Sequence[Mutation], folder: Path, *, baseline: bool) -> int:
    tree = folder / "tree"
    copy_tree(ROOT, tree)
    if baseline:
        tests = list(dict.fromkeys(test for one in mutations for test in one.tests))
        code, took_s, output = _pytest(tree, folder, tests, len(mutations) * TIMEOUT_S)
        print(f"{len(tests)} tests without a mutation: exit code {code}, {took_s:.0f} s", flush=True)
        if code != _PASSED:
            print(output)
            print("They must pass before a failure of theirs means anything.")
            return 2
    counts: Counter[str] = Counter()
    for number, one in enumerate(mutations, 1):
        verdict, took_s, output = run_one(one, tree, folder)
        counts[verdict] += 1
        print(f"{number:3}/{len(mutations)} {verdict:8} {took_s:4.0f} s  {one.file}: {one.name}", flush=True)
        if verdict == UNCLEAR:
            print(output)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 0 if set(counts) <= {KILLED} else 1


def run_one(one: Mutation, tree: Path, folder: Path) -> tuple[str, float, str]:
    """Put one mutation into the tree, run its tests, restore the tree; what became of it, seconds, and pytest's last lines."""
    file = tree / one.file
    before = file.read_text(encoding="utf-8")
    file.write_text(before.replace(one.old, one.new, 1), encoding="utf-8")
    try:
        code, took_s, output = _pytest(tree, folder, one.tests, TIMEOUT_S)
    finally:
        file.write_text(before, encoding="utf-8")
    verdict = {_PASSED: SURVIVED, _FAILED: KILLED, None: KILLED}.get(code, UNCLEAR)
    return verdict, took_s, output


def copy_tree(root: Path, tree: Path) -> None:
    """Copy what git tracks or would track, as it is on the disk."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    for name in set(listed.stdout.decode().split("\0")) - {""}:
        if (root / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, tree / name, follow_symlinks=False)


def _pytest(tree: Path, folder: Path, tests: Sequence[str], timeout_s: float) -> tuple[int | None, float, str]:
    """Run tests in the copy; None as exit code: they did not end in time."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly"]
    command += [f"--basetemp={folder / 'work'}", *(f"tests/{test}" for test in tests)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tree / "daemon"), str(tree)))}
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=tree, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, code = "timed out", None
    return code, time.monotonic() - began, "\n".join(output.splitlines()[-15:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
