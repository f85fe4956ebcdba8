"""Candidates: every kind of merge, and nothing but the two commits decides the result."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from corral.core.errors import GitFailed, InvalidInput, Unsupported
from corral.git.land import candidates
from corral.git.land.candidates import Candidate, Conflicted
from corral.git.process.command import Git, Identity, open_checkout, open_repository
from tests.conftest import commit, git

ME = Identity("Me", "me@x")
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
LINES = "".join(f"line {n}\n" for n in range(20))


def build(repo: Path, tip: str = "main", head: str = "side") -> Candidate | Conflicted | None:
    me = open_repository(repo / ".git")
    return candidates.build(me, git(repo, "rev-parse", tip), git(repo, "rev-parse", head), "Land it\n", ME, AT)


def forked(repo: Path, base: Callable[[], object], ours: Callable[[], object], theirs: Callable[[], object]) -> None:
    """``base`` on both, ``ours`` on main, ``theirs`` on side."""

    def step(change: Callable[[], object]) -> None:
        change()
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "--allow-empty", "-m", "step")

    step(base)
    git(repo, "checkout", "-q", "-b", "side")
    step(theirs)
    git(repo, "checkout", "-q", "main")
    step(ours)


def write(repo: Path, name: str, text: str) -> Callable[[], object]:
    return lambda: commit(repo, {name: text})


def test_a_clean_merge_is_one_commit_with_both_parents(repo: Path) -> None:
    forked(repo, write(repo, "f", LINES), write(repo, "f", "top\n" + LINES), write(repo, "f", LINES + "end\n"))
    built = build(repo)
    assert isinstance(built, Candidate)
    assert git(repo, "show", f"{built.sha}:f") == "top\n" + LINES + "end"
    shown = git(repo, "log", "-1", "--format=%P|%T|%an <%ae>|%cn|%at %ct|%s", built.sha)
    stamp, tip, head = int(AT.timestamp()), git(repo, "rev-parse", "main"), git(repo, "rev-parse", "side")
    assert shown == f"{tip} {head}|{built.tree}|Me <me@x>|Me|{stamp} {stamp}|Land it"
    assert build(repo) == built, "the same merge is the same commit"
    assert git(repo, "status", "--porcelain") == ""


@pytest.mark.req("G25")
def test_a_fast_forward_is_the_head_itself_and_a_merged_head_is_nothing(repo: Path) -> None:
    git(repo, "checkout", "-q", "-b", "side")
    head = commit(repo, {"x": "1"})
    built = build(repo)
    assert isinstance(built, Candidate) and built.sha == head
    assert built.tree == git(repo, "rev-parse", "side^{tree}")
    assert build(repo, "side", "main") is build(repo, "side", "side") is None


def _mode(repo: Path, name: str, mode: int) -> Callable[[], object]:
    return lambda: (repo / name).chmod(mode)


def _binary(repo: Path, data: bytes) -> Callable[[], object]:
    return lambda: (repo / "f").write_bytes(data)


def _move(repo: Path, old: str, new: str) -> Callable[[], object]:
    return lambda: git(repo, "mv", old, new)


def _drop(repo: Path, name: str) -> Callable[[], object]:
    return lambda: git(repo, "rm", "-qr", name)


def _link(repo: Path, name: str, to: str) -> Callable[[], object]:
    def change() -> None:
        (repo / name).unlink(missing_ok=True)
        (repo / name).symlink_to(to)

    return change


def _gitlink(repo: Path, digit: str) -> Callable[[], object]:
    def change() -> None:
        git(repo, "update-index", "--add", "--cacheinfo", f"160000,{digit * 40},sub")
        (repo / "sub").mkdir(exist_ok=True)
        git(repo, "commit", "-q", "-m", "submodule")

    return change


def _nothing() -> None:
    pass


CASES: dict[str, tuple[Callable[[Path], list[Callable[[], object]]], dict[str, str]]] = {
    "content": (lambda r: [write(r, "f", LINES), write(r, "f", "ours\n"), write(r, "f", "theirs\n")], {"f": "content"}),
    "odd name": (
        lambda r: [_nothing, write(r, "a b\nü", "ours\n"), write(r, "a b\nü", "theirs\n")],
        {"a b\nü": "add/add"},
    ),
    "modify/delete": (
        lambda r: [write(r, "f", LINES), write(r, "f", LINES + "x\n"), _drop(r, "f")],
        {"f": "modify/delete"},
    ),
    "rename/delete": (lambda r: [write(r, "f", LINES), _move(r, "f", "g"), _drop(r, "f")], {"g": "rename/delete"}),
    "rename/rename": (
        lambda r: [write(r, "f", LINES), _move(r, "f", "g"), _move(r, "f", "h")],
        {"f": "rename/rename", "g": "rename/rename", "h": "rename/rename"},
    ),
    "binary": (lambda r: [_binary(r, b"\0a"), _binary(r, b"\0b"), _binary(r, b"\0c")], {"f": "binary"}),
    "file/directory": (lambda r: [_nothing, write(r, "d/x", "1"), write(r, "d", "2")], {"d": "file/directory"}),
    "symlink": (lambda r: [_link(r, "l", "a"), _link(r, "l", "b"), _link(r, "l", "c")], {"l": "content"}),
    "types": (lambda r: [_nothing, write(r, "t", "file\n"), _link(r, "t", "x")], {"t": "mode"}),
    "submodule": (lambda r: [_gitlink(r, "1"), _gitlink(r, "2"), _gitlink(r, "3")], {"sub": "submodule"}),
}


@pytest.mark.req("G21")
@pytest.mark.parametrize("case", CASES)
def test_each_kind_of_conflict_is_named_for_its_path(repo: Path, case: str) -> None:
    steps, expected = CASES[case]
    forked(repo, *steps(repo))
    built = build(repo)
    assert isinstance(built, Conflicted), built
    kinds = {conflict.path: conflict.kind for conflict in built.paths}
    # Where two kinds of thing claim one name git moves one side away, to a name with the commit in it.
    kinds = {path.partition("~")[0]: kind for path, kind in kinds.items()}
    assert kinds == expected
    assert "CONFLICT" in built.text or case in ("binary", "submodule"), built.text


def test_both_sides_change_a_mode_differently_is_still_decided(repo: Path) -> None:
    forked(repo, write(repo, "f", LINES), _mode(repo, "f", 0o755), write(repo, "f", LINES + "x\n"))
    built = build(repo)
    assert isinstance(built, Candidate)
    assert git(repo, "ls-tree", built.sha, "f").startswith("100755")


@pytest.mark.req("G24")
def test_unrelated_and_shallow_histories_are_refused(repo: Path, tmp_path: Path) -> None:
    git(repo, "checkout", "-q", "--orphan", "side")
    commit(repo, {"z": "1"})
    with pytest.raises(Unsupported, match="no history in common"):
        build(repo)
    git(repo, "checkout", "-q", "main")
    git(repo, "checkout", "-q", "-B", "side", "main")
    commit(repo, {"z": "1"})
    git(repo, "checkout", "-q", "main")
    commit(repo, {"y": "1"})
    git(tmp_path, "clone", "-q", "--no-single-branch", "--depth=1", f"file://{repo}", "shallow")
    git(tmp_path / "shallow", "branch", "side", "origin/side")
    with pytest.raises(Unsupported) as caught:
        build(tmp_path / "shallow")
    assert "--unshallow" in caught.value.remedy


@pytest.mark.req("G24")
def test_a_criss_cross_history_merges(repo: Path) -> None:
    forked(repo, write(repo, "f", LINES), write(repo, "f", "ours\n" + LINES), write(repo, "f", LINES + "theirs\n"))
    ours, theirs = git(repo, "rev-parse", "main"), git(repo, "rev-parse", "side")
    git(repo, "merge", "-q", "-m", "x", theirs)
    git(repo, "checkout", "-q", "side")
    git(repo, "merge", "-q", "-m", "x", ours)
    commit(repo, {"g": "1"})
    assert len(git(repo, "merge-base", "--all", "main", "side").split()) == 2
    built = build(repo)
    assert isinstance(built, Candidate) and git(repo, "show", f"{built.sha}:f") == "ours\n" + LINES + "theirs"


@pytest.mark.req("G22")
def test_attributes_come_from_the_tip_and_from_nowhere_else(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forked(repo, write(repo, "f", "base\n"), write(repo, "f", "base\nours\n"), write(repo, "f", "base\ntheirs\n"))
    (repo / ".gitattributes").write_text("f merge=union\n")
    monkeypatch.chdir(repo)
    assert isinstance(build(repo), Conflicted), "an uncommitted attribute of a checkout decided the merge"
    commit(repo, {".gitattributes": "f merge=union\n"})
    (repo / ".gitattributes").unlink()
    built = build(repo)
    assert isinstance(built, Candidate)
    assert git(repo, "show", f"{built.sha}:f") == "base\nours\ntheirs"


@pytest.mark.req("G22")
def test_attributes_in_a_folder_count_and_a_driver_is_used(repo: Path) -> None:
    forked(repo, write(repo, "d/f", "base\n"), write(repo, "d/f", "ours\n"), write(repo, "d/f", "theirs\n"))
    git(repo, "config", "merge.mine.driver", "echo driven > %A")
    commit(repo, {"d/.gitattributes": "f merge=mine\n"})
    built = build(repo)
    assert isinstance(built, Candidate)
    assert git(repo, "show", f"{built.sha}:d/f") == "driven"


@pytest.mark.req("G22")
def test_a_submodule_that_both_moved_gets_the_later_commit_wherever_the_checkout_is(repo: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    git(tmp_path, "init", "-q", "-b", "main", str(library))
    first, second, third = (commit(library, {"f": text}) for text in "123")

    def move(sha: str) -> Callable[[], object]:
        return lambda: git(repo / "sub", "checkout", "-q", sha)

    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "sub")
    forked(repo, move(first), move(third), move(second))
    built = build(repo)
    assert isinstance(built, Candidate) and git(repo, "rev-parse", f"{built.sha}:sub") == third
    git(repo, "checkout", "-q", "--orphan", "elsewhere")
    git(repo, "rm", "-q", "-r", "-f", "--cached", ".")
    assert build(repo) == built, "the index of a checkout decided the merge"


@pytest.mark.req("G23")
def test_a_recorded_resolution_is_not_used(repo: Path) -> None:
    forked(repo, write(repo, "f", "base\n"), write(repo, "f", "ours\n"), write(repo, "f", "theirs\n"))
    git(repo, "config", "rerere.enabled", "true")
    git(repo, "config", "rerere.autoUpdate", "true")
    git(repo, "merge", "side", check=False)
    commit(repo, {"f": "resolved\n"})
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    assert isinstance(build(repo), Conflicted)


def test_a_bare_repository_builds(repo: Path, tmp_path: Path) -> None:
    forked(repo, _nothing, write(repo, "a", "1"), write(repo, "b", "1"))
    git(tmp_path, "clone", "-q", "--bare", str(repo), "b.git")
    me = Git(tmp_path / "b.git")
    tip, head = (git(repo, "rev-parse", name) for name in ("main", "side"))
    built = candidates.build(me, tip, head, "x", ME, AT)
    assert isinstance(built, Candidate)
    candidates.hold(me, "m-1", built.sha)
    candidates.hold(me, "m-1", built.sha)
    git(tmp_path / "b.git", "gc", "-q", "--prune=now")
    assert me.must("rev-parse", "refs/corral/mq/m-1") == built.sha
    for _ in range(2):
        candidates.release(me, "m-1")
    assert not me.run("rev-parse", "--verify", "-q", "refs/corral/mq/m-1").ok


def test_what_cannot_be_tried_is_no_conflict(repo: Path) -> None:
    me, tip = open_checkout(repo), git(repo, "rev-parse", "HEAD")
    with pytest.raises(GitFailed):
        candidates.build(me, tip, "f" * 40, "x", ME, AT)
    with pytest.raises(InvalidInput):
        candidates.build(me, "main", "--output=x", "x", ME, AT)
    with pytest.raises(InvalidInput):
        candidates.hold(me, "../x", tip)


def test_an_old_git_is_named(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.integration.git.test_git_wrapper import shim

    forked(repo, _nothing, write(repo, "a", "1"), write(repo, "b", "1"))
    shim(tmp_path / "bin", monkeypatch, 'case " $* " in *" merge-tree "*) exit 129;; esac; exec "$REAL" "$@"')
    with pytest.raises(Unsupported, match="too old"):
        build(repo)


def test_a_name_that_is_no_utf8_survives(repo: Path) -> None:
    name = os.fsdecode(b"latin-\xe9")
    forked(repo, _nothing, write(repo, name, "ours\n"), write(repo, name, "theirs\n"))
    built = build(repo)
    assert isinstance(built, Conflicted) and [c.path for c in built.paths] == [name]
