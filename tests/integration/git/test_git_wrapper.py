"""The wrapper: what git sees, and how it is ended."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from corral.core.errors import GitFailed, NotAProject
from corral.git.commits import CORRAL, effective
from corral.git.process import process
from corral.git.process.command import Git, Identity, Outcome, as_env, environ, open_checkout, open_repository
from tests.conftest import commit, git
from tests.support.files import executable


def shim(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Put a `git` of ours first on the PATH; ``$REAL`` is the real one."""
    real = next(Path(p, "git") for p in os.environ["PATH"].split(os.pathsep) if Path(p, "git").exists())
    folder.mkdir(exist_ok=True)
    executable(folder / "git", f"#!/bin/sh\nREAL={real}\n{body}\n")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.req("G15", "X7")
def test_git_sees_an_environment_made_for_it(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim(tmp_path / "bin", monkeypatch, f'env -0 > {tmp_path}/seen; exec "$REAL" "$@"')
    for name, value in {
        "GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere", "GIT_AUTHOR_NAME": "Mallory", "GIT_CONFIG_PARAMETERS": "'a.b=c'",
        "GIT_EXTERNAL_DIFF": "/bin/false", "SSH_AUTH_SOCK": "/tmp/agent", "LC_ALL": "de_DE.UTF-8", "SECRET": "s",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    me = as_env(Identity("Me", "me@x"))
    assert open_checkout(repo).must("rev-parse", "--show-toplevel", env=me) == str(repo)
    seen = dict(item.split("=", 1) for item in (tmp_path / "seen").read_text().split("\0") if item)
    assert set(seen) - {"PWD", "_", "SHLVL", "OLDPWD"} == {*environ(), *me}
    assert seen["GIT_AUTHOR_NAME"] == "Me" and seen["LC_ALL"] == "C"
    assert not {"GIT_DIR", "GIT_CONFIG_PARAMETERS", "SSH_AUTH_SOCK", "SECRET", "GIT_EXTERNAL_DIFF"} & set(seen)


def test_a_killed_git_is_run_again_where_it_changes_nothing(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    shim(
        tmp_path / "bin", monkeypatch, f'echo >> {runs}; [ "$(wc -l < {runs})" -eq 1 ] && kill -9 $$; exec "$REAL" "$@"'
    )
    here = open_checkout(repo)
    assert here.run("rev-parse", "--is-bare-repository").text == "false\n"
    assert runs.read_text() == "\n\n"
    runs.unlink()
    assert here.run("update-ref", "refs/heads/new", "HEAD").rc == -9
    assert runs.read_text() == "\n" and here.run("show-ref", "--verify", "refs/heads/new").rc != 0


def test_a_git_that_hangs_is_ended_with_all_it_started(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim(tmp_path / "bin", monkeypatch, f"sleep 1000 & echo $! > {tmp_path}/pid; wait")
    began = time.monotonic()
    result = open_checkout(repo).run("status", timeout_s=0.3)
    assert result.outcome is Outcome.INFRA and "did not finish within 0.3 s" in result.stderr
    assert time.monotonic() - began < 60
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 5
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the child of git outlived it"
        time.sleep(0.01)


def test_a_git_that_writes_without_end_is_ended() -> None:
    done = process.execute(["seq", "100000000"], environ(), stdin=None, timeout_s=20, cap=100_000)
    assert "more than 100000 bytes" in done.cut and len(done.stdout) < 1_000_000


def test_standard_input_larger_than_a_pipe_arrives_whole(repo: Path) -> None:
    data = os.urandom(3_000_000)
    me = open_checkout(repo)
    sha = me.must("hash-object", "-w", "--stdin", input=data)
    assert me.run("cat-file", "blob", sha).stdout == data


def test_a_git_that_does_not_read_its_input_is_no_error(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim(tmp_path / "bin", monkeypatch, "exit 3")
    assert open_checkout(repo).run("hash-object", "--stdin", input=b"x" * 1_000_000).rc == 3


def test_a_failure_carries_what_git_said(repo: Path) -> None:
    with pytest.raises(GitFailed) as caught:
        open_checkout(repo).must("cat-file", "-p", "0" * 40)
    assert caught.value.details["argv"][0] == "cat-file" and caught.value.details["rc"] == 128


@pytest.mark.parametrize(("found", "why"), [("nothing", "No such file"), ("git", "Permission denied")])
def test_no_git_at_all_is_said_plainly(
    repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: str, why: str
) -> None:
    (tmp_path / found).touch(0o600)
    monkeypatch.setenv("PATH", str(tmp_path))
    here = open_checkout(repo)
    assert here.run("status").outcome is Outcome.INFRA
    with pytest.raises(GitFailed, match=why) as caught:
        here.must("status")
    assert "Install git" in caught.value.remedy


def test_a_checkout_is_found_by_reading_files(repo: Path, tmp_path: Path) -> None:
    linked = tmp_path / "li nk ü"
    git(repo, "worktree", "add", "-q", "-b", "side", str(linked))
    main, side = open_checkout(repo), open_checkout(linked)
    assert (main.branch(), side.branch()) == ("refs/heads/main", "refs/heads/side")
    assert main.head() == side.head() == git(repo, "rev-parse", "HEAD")
    assert side.common_dir == main.common_dir == repo / ".git"
    git(repo, "pack-refs", "--all")
    assert side.head() == git(repo, "rev-parse", "HEAD")
    git(linked, "checkout", "-q", "--detach")
    assert side.branch() is None and side.head() == main.head()


def test_an_unborn_repository_has_a_branch_and_no_head(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk", "new")
    fresh = open_checkout(tmp_path / "new")
    assert fresh.head() is None and fresh.branch() == "refs/heads/trunk"


def test_what_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAProject):
        open_checkout(tmp_path)
    with pytest.raises(NotAProject):
        open_repository(tmp_path)
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    with pytest.raises(NotAProject):
        open_checkout(tmp_path)


def test_identity_is_gits_else_the_submitters_else_corrals(repo: Path) -> None:
    me = open_checkout(repo)
    submitter = Identity("Sub Mitter", "s@x")
    assert effective(me, None) == CORRAL
    assert effective(me, submitter) == submitter
    assert effective(me, Identity("<>", "s@x")) == CORRAL
    git(repo, "config", "user.name", "Con Figured")
    assert effective(me, submitter) == submitter, "half an identity is none"
    git(repo, "config", "user.email", "c@x")
    assert effective(me, submitter) == Identity("Con Figured", "c@x")


def test_a_bare_repository_opens(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    bare = open_repository(tmp_path / "bare.git")
    assert isinstance(bare, Git) and bare.head() == git(repo, "rev-parse", "HEAD")


def test_a_worktree_whose_entry_is_gone_is_said_plainly(repo: Path) -> None:
    me = open_checkout(repo)
    commit(repo, {"x": "1"})
    (repo / ".git" / "HEAD").unlink()
    with pytest.raises(NotAProject):
        me.head()
