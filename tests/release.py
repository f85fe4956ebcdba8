"""The release checklist, as far as a machine can go through it: ``python -m tests.release``.

First what costs nothing: one version everywhere, a clean ``main``, a tag that is not taken, a lock file without packages that
have left. Then the wheel is built, installed into an empty environment, and does there what a user does first. Tag, push and
upload are a person's: they are printed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from pathlib import Path

from corral import __version__
from tests.run import ROOT, step

BRANCH = "main"
LOCK = ROOT / "requirements-dev.lock"
ONE_VERSION = "tests/bundle/test_docs.py::test_one_version_everywhere"


def not_ready(repo: Path, version: str) -> Iterator[str]:
    """What keeps the commit that is checked out at ``repo`` from being released as ``version``."""
    branch = _git(repo, "branch", "--show-current").strip()
    if branch != BRANCH:
        yield f"{branch or 'no branch'} is checked out, not {BRANCH}"
    changed = _git(repo, "status", "--porcelain").splitlines()
    if changed:
        yield f"not committed: {', '.join(line[3:] for line in changed[:5])}{', …' if len(changed) > 5 else ''}"
    if _git(repo, "tag", "--list", f"v{version}"):
        yield f"the tag v{version} exists"


def not_installed(lock: str, installed: Iterable[str]) -> Iterator[str]:
    """Where a lock file is older than the environment that was tested: packages that it pins and that are no longer needed.

    Args:
        installed: The names of the packages of that environment.
    """
    names = {_normal(name) for name in installed}
    left = [name for line in lock.splitlines() if _normal(name := line.partition("==")[0]) not in names]
    if left:
        yield f"{LOCK.name} pins {', '.join(left)}, which is not installed: write it anew (CONTRIBUTING.md)"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _git(repo: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=repo, check=True, capture_output=True, text=True).stdout


def main() -> int:
    """Go through the list, and stop before what takes minutes if the rest is in vain."""
    installed = (package.metadata["Name"] for package in distributions())
    reasons = [*not_ready(ROOT, __version__), *not_installed(LOCK.read_text(encoding="utf-8"), installed)]
    for reason in reasons:
        print(f"not ready: {reason}", flush=True)
    pytest = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]
    if not step("one version", [*pytest, ONE_VERSION]) or reasons:
        return 1
    wheel = built_and_tried()
    if wheel is None:
        return 1
    print(
        f"""
Corral {__version__} can be released. Left to a person:
  git tag -a v{__version__} -m 'Corral {__version__}' && git push origin {BRANCH} v{__version__}
  upload dist/{wheel.name}"""
    )
    return 0


def built_and_tried() -> Path | None:
    """Build the wheel, and use it from an empty environment; None if anything of that failed."""
    os.environ.pop("PYTHONPATH", None)  # it may name the source, which would be tried instead
    with tempfile.TemporaryDirectory(prefix="corral-release-") as folder:
        top = Path(folder).resolve()
        venv, built = top / "venv", top / "wheel"
        pip = [str(venv / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        corral = str(venv / "bin" / "corral")
        build = [*pip, "wheel", "--no-deps", "--wheel-dir", str(built), str(ROOT)]
        if not step("environment", [sys.executable, "-m", "venv", str(venv)]) or not step("wheel", build):
            return None
        (wheel,) = built.iterdir()
        # From outside the source: what is imported is what was installed.
        if not step("install", [*pip, "install", str(wheel)]) or not step("version", [corral, "--version"], cwd=top):
            return None
        plugin = subprocess.run([corral, "plugin", "path"], cwd=top, capture_output=True, text=True).stdout.strip()
        if not Path(plugin).is_relative_to(venv) or not Path(plugin, ".claude-plugin", "plugin.json").is_file():
            print(f"plugin         FAILED: the wheel's is at {plugin!r}", flush=True)
            return None
        if not shutil.which("claude"):
            print("plugin         not validated: claude is not installed", flush=True)
        elif not step("plugin", ["claude", "plugin", "validate", "--strict", plugin], cwd=top):
            return None
        if not step("demo", [corral, "demo"], cwd=top):
            return None
        (ROOT / "dist").mkdir(exist_ok=True)
        return Path(shutil.copy(wheel, ROOT / "dist"))


if __name__ == "__main__":
    sys.exit(main())
