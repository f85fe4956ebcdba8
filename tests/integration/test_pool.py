"""The warm pool: a worktree that is given back is the next task's, which cannot tell it from a fresh one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.work.merges.store import merges
from tests.conftest import commit, git
from tests.integration import pooling
from tests.integration.pooling import Open, apart, counted, inode, pooled, run, seen, used
from tests.support.files import executable

IGNORED = "build/\n*.log\n.env\n__pycache__/\ncache\n"


@pytest.fixture
def house(repo: Path) -> Iterator[Open]:
    yield from pooling.houses(repo)


@pytest.fixture
def fresh(house: Open, repo: Path, tmp_path: Path) -> dict[str, Any]:
    """All that a task sees in a fresh worktree."""
    executable(repo / "run.sh", "#!/bin/sh\n")
    (repo / "a-link").symlink_to("README.md")
    git(repo, "add", "run.sh", "a-link")
    commit(repo, {".gitignore": IGNORED, "deep/down/x.txt": "x\n"})
    (repo / ".worktreeinclude").write_text(".env\n")
    (repo / ".env").write_text("from the main checkout\n")
    home = house(worktrees={"pool_size": 0})
    facts = seen(home, tmp_path / "fresh.json")
    assert facts["tree"][".env"][1] == "from the main checkout\n"
    return facts


def test_a_worktree_given_back_is_the_next_tasks(house: Open, repo: Path, tmp_path: Path) -> None:
    home = house()
    first = run(home, "echo new > new.txt")
    assert (counted(home, "not_kept"), counted(home, "not_used")) == ({}, {"none was kept": 1})
    (kept,) = pooled(home)
    path = Path(kept["path"])
    assert kept["branch"] is None and path.name == kept["name"] and (path / "README.md").exists()
    assert git(path, "status", "--porcelain", "--ignored") == "" and not (path / "new.txt").exists()
    commit(repo, {"later.txt": "later\n"})
    facts = seen(home, tmp_path / "second.json")
    assert used(home) == 1 and facts["inode"] == inode(kept)
    assert facts["place"] not in (kept["path"], str(home.worktree_context.root / f"task-{first['task_id'][:13]}-1"))
    assert "later.txt" in facts["tree"] and "new.txt" not in facts["tree"]
    (request,) = home.db.read(merges.listing)
    assert git(repo, "rev-parse", f"refs/heads/{request['branch']}") == request["head_sha"]
    assert request["base_sha"] is not None
    assert git(repo, "diff", "--name-only", request["base_sha"], request["head_sha"]) == "new.txt"


CLEANED = {
    "nothing": "true",
    "committed": "echo x > x.txt && git add . && git commit -qm x",
    "left over": "echo x > x.txt; echo more >> README.md; git rm -q run.sh",
    "ignored files": "mkdir -p build/a deep/__pycache__; touch build/a/b deep/x.log; echo x > deep/__pycache__/x.pyc",
    "empty folders": "mkdir -p empty/inside deep/empty",
    "a pipe": "mkfifo a-pipe deep/a-pipe",
    "a second name of what git writes anew": "ln README.md ../../second-name; touch -d 2001-01-01 README.md",
    "modes": "chmod 600 README.md; chmod 700 deep; chmod 777 run.sh",
    "a read-only folder": "mkdir -p build/closed && echo x > build/closed/x && chmod 555 build/closed deep/down",
    "an environment file": "echo changed >> .env; echo x > build.log",
    "a link to elsewhere": f"mkdir build && ln -s {os.fspath(Path(__file__).parent)} build/tests && ln -s / cache",
    "an ignored repository": "git init -q build && echo x > build/x",
    "records of commands": "git commit -q --allow-empty -m a; git reset -q --soft HEAD~1; git fetch -q . HEAD",
    "another branch": "git checkout -q -b elsewhere",
    "no branch": "git checkout -q --detach",
    "an index of its own kind": "git config index.version 4; git update-index --split-index --index-version 4 --untracked-cache",
}
REFUSED = {
    "hidden by assume-unchanged": (
        "git update-index --assume-unchanged README.md; echo hidden > README.md",
        "its index holds submodules, or marks that hide files from git",
    ),
    "hidden by skip-worktree": (
        "git update-index --skip-worktree README.md; echo hidden > README.md",
        "its index holds submodules, or marks that hide files from git",
    ),
    "a bisection": ("git bisect start", "git's entry of it holds BISECT_LOG"),
    "a ref of its own": ("git update-ref refs/worktree/mine HEAD", "git's entry of it holds refs"),
    "a rebase": (
        "git -c sequence.editor='sed -i 1s/pick/edit/' rebase -q -i HEAD~1",
        "git's entry of it holds REBASE_HEAD, rebase-merge",
    ),
    "a revert": (
        "git rev-parse HEAD > $(git rev-parse --git-dir)/REVERT_HEAD",
        "git's entry of it holds REVERT_HEAD",
    ),
    "settings of its own": (
        "git config extensions.worktreeConfig true; git config --worktree core.fileMode false",
        "git's entry of it holds config.worktree",
    ),
    "a lock of git's": ("touch $(git rev-parse --git-dir)/HEAD.lock", "git's entry of it holds HEAD.lock"),
    # Git, which compares whole seconds, else sometimes takes the file for changed and writes it anew: there is no link then.
    "a second name": (
        "ln README.md ../../second-name && git update-index --refresh",
        "a file in it has a second name (a hard link)",
    ),
}


@pytest.mark.timeout(600)
def test_nothing_of_the_last_task_is_in_the_worktree(house: Open, fresh: dict[str, Any], tmp_path: Path) -> None:
    home = house()
    for number, (name, command) in enumerate(CLEANED.items()):
        run(home, command)
        assert counted(home, "not_kept") == {}, name
        (kept,) = pooled(home)
        facts = seen(home, tmp_path / "found.json")
        assert (used(home), facts["inode"]) == (2 * number + 1, inode(kept)), name
        assert apart(facts) == apart(fresh), name


@pytest.mark.timeout(600)
def test_a_worktree_that_may_hold_more_than_its_commit_is_not_kept(
    house: Open, fresh: dict[str, Any], repo: Path, tmp_path: Path
) -> None:
    home = house()
    for name, (command, reason) in REFUSED.items():
        before = counted(home, "not_kept")
        run(home, command)
        (why_not,) = [why for why, often in counted(home, "not_kept").items() if often > before.get(why, 0)]
        assert why_not.startswith(reason) and pooled(home) == [], name
        git(repo, "config", "--unset", "extensions.worktreeConfig", check=False)
        others = used(home)
        assert apart(seen(home, tmp_path / "found.json")) == apart(fresh), name
        assert used(home) == others, name
