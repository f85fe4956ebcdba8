"""Temporary folders of git operations go with their operation, or with the next daemon's start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from corral.git.process import scratch
from corral.git.process.command import open_repository
from tests.conftest import commit, git

KILLED = """
import os, signal, sys
from pathlib import Path
from corral.git.checkouts import status
from corral.git.process.command import open_checkout
with status.copied_index(open_checkout(Path(sys.argv[1]))):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_operation_left_is_swept_and_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    root, source = tmp_path / "repo", Path(__file__).resolve().parents[3] / "daemon"
    root.mkdir()
    git(root, "init", "-q")
    commit(root, {"a.txt": "a"})
    before = set(Path("/tmp").glob("corral-index-*"))
    env = {**os.environ, "PYTHONPATH": str(source)}
    assert subprocess.run([sys.executable, "-c", KILLED, str(root)], env=env, check=False).returncode == -9
    assert set(Path("/tmp").glob("corral-index-*")) == before, "nothing is left where nobody knows whose it is"
    place, repo = root / ".git" / scratch.NAME, open_repository(root / ".git")
    assert len(list(place.iterdir())) == 1
    assert scratch.sweep(repo) == 1
    assert list(place.iterdir()) == []
    with scratch.folder(repo) as made:
        (made / "file").write_text("x")
    assert list(place.iterdir()) == []

    place.rmdir()
    other = tmp_path / "somebody"
    (other / "work").mkdir(parents=True)
    place.symlink_to(other)
    assert scratch.sweep(repo) == 0
    assert (other / "work").is_dir()
