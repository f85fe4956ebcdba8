"""A hostile repository: nothing that its configuration or its tree plants is ever executed."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from corral.git import commits, doctor, refs
from corral.git.checkouts import salvage, status, worktrees
from corral.git.land import candidates, landing
from corral.git.land.candidates import Candidate
from corral.git.land.landing import Landed
from corral.git.process.command import Identity, discovered_top, open_checkout, open_repository
from tests.conftest import commit, git
from tests.support.files import executable

ME = Identity("Me", "me@x")
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
HOOKS = (
    "post-checkout", "post-commit", "pre-commit", "prepare-commit-msg", "commit-msg", "reference-transaction", "post-merge",
    "pre-merge-commit", "post-index-change", "fsmonitor-watchman", "pre-auto-gc", "post-rewrite",
)  # fmt: skip


def plant(config: Path, hooks: Path, marker: Path) -> None:
    """Everything that configuration can make a git execute in a checkout, but filters and merge drivers."""
    run = f"touch {marker}; true"
    hooks.mkdir(parents=True, exist_ok=True)
    for name in HOOKS:
        executable(hooks / name, f"#!/bin/sh\necho {name} >> {marker}\n")
    with config.open("a") as out:
        out.write(
            f'[core]\n\tfsmonitor = "{run}; :"\n\thooksPath = {hooks}\n\tpager = "{run}"\n\teditor = "{run}"\n'
            f'\tsshCommand = "{run}"\n\taskPass = "{run}"\n[diff]\n\texternal = "{run}"\n[gpg]\n\tprogram = {marker}.sh\n'
            f'[commit]\n\tgpgSign = true\n\tverbose = 2\n[credential]\n\thelper = "!{run}"\n[log]\n\tshowSignature = true\n'
            f'[merge]\n\tverifySignatures = true\n[sequence]\n\teditor = "{run}"\n[trailer "Corral-Task"]\n\tcommand = "{run}"\n'
            f'[interactive]\n\tdiffFilter = "{run}"\n[pager]\n\tstatus = "{run}"\n'
            + "".join(
                f'[alias]\n\t{verb} = "!{run}"\n'
                for verb in ("st", "status", "add", "commit", "merge", "update-ref", "config")
            )
        )
    executable(marker.with_suffix(".sh"), f"#!/bin/sh\ntouch {marker}\nexit 0\n")


@pytest.mark.req("X7", "X8", "X9", "G18")
def test_a_whole_life_executes_nothing_that_was_planted(
    repo: Path, tmp_path: Path, sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "marker"
    hidden = repo / "vendor/hidden"  # a bare repository that a clone brings along, with a fsmonitor of its own
    git(repo, "init", "-q", "--bare", str(hidden))
    plant(hidden / "config", hidden / "hooks", marker)
    (hidden / "config").write_text(
        (hidden / "config").read_text().replace("bare = true", f"bare = true\n\tworktree = {repo}")
    )
    git(repo, "add", "-A", "--force")
    git(repo, "commit", "-q", "-m", "hostile")
    plant(repo / ".git/config", repo / ".git/hooks", marker)
    monkeypatch.chdir(hidden)

    me, main = open_repository(repo / ".git"), open_checkout(repo)
    base = refs.resolve(me, "main")
    place = tmp_path / "w1"
    worktrees.add(me, place, "corral/w1", base)
    work = open_checkout(place)
    before = status.look(work)
    (place / "src/a.py").write_text("changed\n")
    (place / "new").write_text("new\n")
    saved = salvage.snapshot(work, "w1", AT, reason="x")
    assert saved and salvage.listing(me)
    head = commits.commit_leftovers(work, "x", {"Corral-Task": "1"}, lambda: ME)
    assert head and status.differences(before, status.look(work)) == ["new", "src/a.py"]
    assert not marker.exists()

    (repo / "src/b.py").write_text("tip\n")
    tip = commits.commit_leftovers(main, "tip", {}, lambda: ME)
    assert tip
    built = candidates.build(me, tip, head, "x", ME, AT)
    assert isinstance(built, Candidate)
    candidates.hold(me, "m1", built.sha)
    assert landing.land(me, "refs/heads/main", built.sha, tip) == Landed(built.sha)
    candidates.release(me, "m1")
    assert refs.changed_paths(me, tip, built.sha) and refs.show_file(me, built.sha, "new") == b"new\n"
    worktrees.remove(me, place)
    salvage.restore(me, saved.ref, tmp_path / "back", "corral/back")
    worktrees.repair(me, tmp_path / "back", "corral/back")
    doctor.problems(me, AT)
    assert not marker.exists(), marker.read_text()

    # The plants are live: a plain git does execute them.
    git(repo, "status", check=False)
    assert marker.exists()


@pytest.mark.req("X8")
def test_a_hidden_bare_repository_is_not_taken_for_the_repository(repo: Path, tmp_path: Path) -> None:
    git(repo, "init", "-q", "--bare", "vendor/hidden")
    marker = tmp_path / "marker"
    plant(repo / "vendor/hidden/config", repo / "vendor/hidden/hooks", marker)
    git(repo, "config", "--file", "vendor/hidden/config", "core.bare", "false")
    git(repo, "config", "--file", "vendor/hidden/config", "core.worktree", str(tmp_path))
    assert discovered_top(repo / "vendor/hidden") is None
    assert not marker.exists()


@pytest.mark.req("X6")
def test_refs_and_files_with_hostile_names_are_data(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sha = commit(repo, {"--output=pwned": "1", "-c": "2", "new\nline": "3", "$(touch pwned)": "4"})
    for name in ("refs/heads/--output=pwned", "refs/heads/-c", "refs/tags/main"):
        git(repo, "update-ref", name, f"{sha}~1")
    me, work = open_repository(repo / ".git"), open_checkout(repo)
    assert refs.read(me, "refs/heads/main") == sha
    assert len(refs.listing(me, "refs/heads/")) == 3
    for name in ("--output=pwned", "-c", "new\nline", "$(touch pwned)"):
        assert refs.show_file(me, sha, name)
        (repo / name).write_text("changed")
    assert {c.path for c in status.changes(work)} == {"--output=pwned", "-c", "new\nline", "$(touch pwned)"}
    assert commits.commit_leftovers(work, "--amend", {}, lambda: ME, exclude=["-c", "$(touch pwned)"])
    assert git(repo, "log", "-1", "--format=%s") == "--amend"
    assert {c.path for c in status.changes(work)} == {"-c", "$(touch pwned)"}
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.req("X7", "G5", "G6", "G13", "G16")
def test_the_doctor_names_what_it_finds(repo: Path, tmp_path: Path) -> None:
    me = open_repository(repo / ".git")
    later = datetime.now(timezone.utc) + timedelta(minutes=2)
    assert doctor.problems(me, later) == []
    (repo / ".git/index.lock").touch()
    (repo / ".git/refs/heads/x.lock").touch()
    (repo / ".git/gc.pid").write_text("999999999 host")
    git(repo, "config", "filter.lfs.clean", "git-lfs clean")
    git(repo, "config", "merge.mine.driver", "x %A")
    git(repo, "worktree", "add", "-q", "--lock", "--reason", "initializing", "-b", "w", str(tmp_path / "w"))
    (repo / ".git/index.lock").unlink()
    (repo / "src/a.py").write_text("x")
    git(repo, "stash")
    (repo / ".git/index.lock").touch()
    git(repo, "config", "core.bare", "true")
    codes = [problem.code for problem in doctor.problems(me, later)]
    assert sorted(codes) == sorted(
        [
            "stale-lock",
            "stale-lock",
            "dead-gc",
            "core-bare",
            "runs-programs",
            "runs-programs",
            "worktree-half-made",
            "stash",
        ]
    )
    assert "stale-lock" not in [p.code for p in doctor.problems(me, datetime.now(timezone.utc))], (
        "a young lock is no problem"
    )
