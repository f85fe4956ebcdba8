"""Which defects in changed code no unit test would see: ``python -m tests.mutated [COMMIT, or files of the package]``.

mutmut changes one expression after another, and runs the tests that reach it. It sees only what runs in the test's own process,
so the tests are those of ``tests/unit`` that import a changed module. What runs in daemons and commands is reviewed instead: the
behaviour is taken out once. Before it begins, mutmut proves that a failure of this code fails a test; functions that no test
reaches are told apart from defects that pass. It is not among the packages of the tests: ``pip install mutmut``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.run import ROOT

PACKAGE = "daemon/corral/"
STAYS = "survived"
"""mutmut's word for a defect that no test saw."""
UNREACHED = "no tests"


def changed(base: str) -> list[str]:
    """The modules of the package that differ from a commit, or that are new."""
    diff = ["git", "diff", "--name-only", "--diff-filter=d", base, "--", PACKAGE]
    names = subprocess.run(diff, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return [name for name in names if name.endswith(".py")]


def tests_of(modules: Iterable[str]) -> list[str]:
    """The files of unit tests that import one of these modules."""
    dotted = [module.removeprefix("daemon/").removesuffix(".py").replace("/", ".") for module in modules]
    imports = "|".join(
        rf"{re.escape(name)}\b|from {re.escape(name.rpartition('.')[0])} import [^\n]*\b{name.rpartition('.')[2]}\b"
        for name in dotted
    )
    files = sorted((ROOT / "tests/unit").rglob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if re.search(imports, file.read_text())]


def lay_out(folder: Path, modules: Iterable[str], tests: Iterable[str]) -> None:
    """Copy what git does not ignore to a folder in which mutmut finds it: it expects the package below ``src``."""
    list_files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    listed = subprocess.run(list_files, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    tops = set()
    for name in listed:
        if not (ROOT / name).is_file():  # deleted, not yet from the index
            continue
        place = folder / (f"src/{name.removeprefix('daemon/')}" if name.startswith("daemon/") else name)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place, follow_symlinks=False)
        tops.add(place.relative_to(folder).parts[0])
    for place in (folder, folder / "mutants"):  # tests, and links, name files of the package by their place here
        place.mkdir(exist_ok=True)
        (place / "daemon").symlink_to("src")
    lists = {
        "source_paths": ["src"],
        "only_mutate": [f"src/{module.removeprefix('daemon/')}" for module in modules],
        "also_copy": sorted(tops - {"src", "tests", "pyproject.toml"}),
        "pytest_add_cli_args": ["-m", "not slow", "-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": list(tests),
    }
    with (folder / "pyproject.toml").open("a") as config:
        config.write("\n[tool.mutmut]\n" + "".join(f"{key} = {values!r}\n" for key, values in lists.items()))


def main() -> int:
    """Mutate, and print what no test saw; the exit code is 1 if there is any."""
    named = sys.argv[1:] or ["HEAD"]
    modules = named if named[0].endswith(".py") else changed(named[0])
    tests = tests_of(modules)
    if not modules or not tests:
        print("No module of the package is changed." if not modules else "No unit test imports what is changed.")
        return 0
    mutmut = [sys.executable, "-m", "mutmut"]
    with tempfile.TemporaryDirectory(prefix="corral-mutated-") as made:
        folder = Path(made).resolve()
        lay_out(folder, modules, tests)
        if code := subprocess.run([*mutmut, "run"], cwd=folder).returncode:
            return code
        results = subprocess.run([*mutmut, "results"], cwd=folder, check=True, capture_output=True, text=True).stdout
        missed = [line.strip().partition(": ")[::2] for line in results.splitlines() if ": " in line]
        for name, outcome in missed:
            if outcome == STAYS:
                print(subprocess.run([*mutmut, "show", name], cwd=folder, capture_output=True, text=True).stdout)
        unreached = {name.rpartition("__mutmut")[0] for name, outcome in missed if outcome == UNREACHED}
        print("\n".join(f"no test reaches {name}" for name in sorted(unreached)))
        return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
