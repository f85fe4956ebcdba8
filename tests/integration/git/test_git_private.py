"""Files that git ignores: stored byte for byte where no push or fetch leads, as many as fit, and given back into nobody's way."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import GitFailed
from corral.git import refs
from corral.git.checkouts import ignored, private, status
from corral.git.checkouts.ignored import Ignored
from corral.git.checkouts.private import Copy
from corral.git.process import process, scratch
from corral.git.process.command import Git, open_checkout, open_repository
from tests.conftest import commit, git
from tests.support.files import executable

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
BINARY = b"a\r\nb\n\0\xff"


@pytest.fixture
def top(repo: Path) -> Path:
    """A repository whose attributes would convert what is added to it."""
    commit(repo, {".gitignore": "*.db\n.env\nout/\nnode_modules/\n", ".gitattributes": "* text=auto\n"})
    return repo


def found(top: Path, most: int = 64_000_000, rebuilt: tuple[str, ...] = ("node_modules",)) -> Ignored:
    return ignored.survey(top, status.look_at_all(open_checkout(top))[1], rebuilt, (), most)


def save(
    top: Path, what: Ignored | None = None, known: private.Known | None = None, after_s: int = 0, of: str = "1"
) -> Copy:
    repo, now = open_repository(top / ".git"), AT + timedelta(seconds=after_s)
    copy = private.save(
        repo, top, "w1", now, what or found(top), reason="a\nturn", head="0" * 40, known=known or {}, identity=of
    )
    assert copy is not None
    return copy


def all_refs(git_dir: Path) -> str:
    return git(git_dir, "--git-dir=.", "for-each-ref", "--format=%(refname)")


def test_it_is_stored_as_it_is_and_given_back_beside_what_stands_in_its_way(top: Path, tmp_path: Path) -> None:
    (top / "my.db").write_bytes(BINARY)
    (top / "out/deep").mkdir(parents=True)
    odd = os.fsdecode(b"out/deep/l\xe9\n")
    (top / odd).write_text("new")
    executable(top / "out/run", "#!/bin/sh\n")
    (top / ".env").symlink_to("/nowhere")
    (top / "node_modules/x").mkdir(parents=True)
    (top / "node_modules/x/y").write_text("rebuilt")
    before = git(top, "status", "--porcelain", "--ignored"), (top / ".git/index").read_bytes()
    copy = save(top)
    assert before == (git(top, "status", "--porcelain", "--ignored"), (top / ".git/index").read_bytes())
    repo = open_repository(top / ".git")
    (saved,) = private.listing(repo, "w1")
    assert (saved.ref, saved.sha, saved.reason, saved.head_sha) == (copy.ref, copy.sha, "a turn", "0" * 40)
    assert saved.ref == "refs/corral/private/w1/20260102T030405678901Z"
    assert sorted(saved.files) == sorted([".env", "my.db", "out/run", odd]) and saved.left_out == {}
    into = tmp_path / "into"
    git(tmp_path, "init", "-q", "into")
    (into / ".git/info/exclude").write_text("*.db\n")
    (into / ".corral-recovered").symlink_to(tmp_path)
    (tmp_path / ".gitignore").write_text("*\n")
    (into / "my.db").write_text("mine")
    (into / ".env").symlink_to("/nowhere")
    (into / "out").symlink_to(tmp_path)
    restored = private.restore(repo, [saved], into)
    assert (into / "my.db").read_text() == "mine"
    aside = into / ".corral-recovered-2"
    assert (aside / "my.db").read_bytes() == BINARY
    assert restored.present == [".env"]
    assert restored.aside["my.db"] == f"{aside.name}/my.db" and restored.aside["out/run"] == f"{aside.name}/out+run"
    assert os.access(aside / "out+run", os.X_OK) and aside.stat().st_mode & 0o77 == 0
    assert not [name for name in ("run", "out+run", "my.db") if (tmp_path / name).exists()], (
        "nothing is written through a link"
    )


@pytest.mark.req("NFR-SEC-001")
def test_no_ref_of_it_is_pushed_fetched_cloned_bundled_or_listed(top: Path, tmp_path: Path) -> None:
    (top / ".env").write_text("KEY=1")
    copy = save(top)
    blob = copy.known[".env"][2]
    for name in ("pushed", "mirror"):
        git(tmp_path, "init", "-q", "--bare", name)
    git(top, "push", "-q", "--mirror", str(tmp_path / "pushed"))
    git(top, "push", "-q", str(tmp_path / "mirror"), "+refs/*:refs/*")
    git(tmp_path, "clone", "-q", "--mirror", str(top), "cloned")
    git(top, "bundle", "create", "-q", str(tmp_path / "all.bundle"), "--all")
    git(tmp_path, "clone", "-q", "--mirror", "all.bundle", "unbundled")
    for name in ("pushed", "mirror", "cloned", "unbundled"):
        assert "refs/heads/main" in all_refs(tmp_path / name)
        assert "private" not in all_refs(tmp_path / name)
        missing = subprocess.run(["git", "--git-dir", tmp_path / name, "cat-file", "-e", blob], capture_output=True)
        assert missing.returncode != 0
    assert "private" not in git(top, "for-each-ref")
    assert "saved by Corral" not in git(top, "log", "--all", "--format=%B")
    assert (top / ".git" / private.FOLDER).stat().st_mode & 0o77 == 0


def test_the_smallest_come_first_and_what_is_left_out_is_named(top: Path) -> None:
    for name, size in (("a.db", 10), ("b.db", 400), ("c.db", 500), ("d.db", 20)):
        (top / name).write_bytes(b"x" * size)
    with (top / "huge.db").open("wb") as huge:
        huge.truncate(10**12)  # a thousand gigabytes that are nowhere
    copy = save(top, found(top, most=600))
    assert sorted(copy.known) == ["a.db", "b.db", "d.db"]
    assert sorted(copy.left_out) == ["c.db", "huge.db"]
    (saved,) = private.listing(open_repository(top / ".git"))
    assert saved.left_out == copy.left_out and "1,000,000.0 MB" in saved.left_out["huge.db"]


def test_what_vanishes_changes_or_is_no_file_is_named_and_the_rest_is_stored(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.db", "gone.db", "grew.db", "became.db", "closed.db"):
        (top / name).write_text("old")
    (top / "out").mkdir()
    os.mkfifo(top / "out/x.pipe")
    monkeypatch.chdir(top / "out")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("x.sock")
        what = found(top)
    (top / "gone.db").unlink()
    (top / "grew.db").write_text("old and new")
    (top / "became.db").unlink()
    os.mkfifo(top / "became.db")
    opened = os.open

    def refuse(path: object, *how: int, **more: int) -> int:
        if str(path).endswith("closed.db"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *how, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    copy = save(top, what)
    assert sorted(copy.known) == ["a.db", "grew.db"]
    assert sorted(copy.left_out) == ["became.db", "closed.db", "gone.db", "grew.db", "out/x.pipe", "out/x.sock"]
    again = save(top, known=copy.known, after_s=1)
    store = Git(top / ".git" / private.FOLDER)
    assert refs.contents(store, [again.known["grew.db"][2]]) == [b"old and new"], "it is read again with the next copy"


@pytest.mark.req("G12")
def test_a_worktree_that_goes_while_it_is_stored_is_stored_whole(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = {f"{name}.db": os.urandom(5_000_000) for name in "abcdef"}
    for name, data in content.items():
        (top / name).write_bytes(data)
    what, execute = found(top), process.execute

    def remove_first(argv: list[str], *how: Any, **more: Any) -> Any:
        if "fast-import" in argv:
            for name in content:
                (top / name).unlink(missing_ok=True)
        return execute(argv, *how, **more)

    monkeypatch.setattr(process, "execute", remove_first)
    copy = save(top, what)
    assert not copy.left_out
    store = Git(top / ".git" / private.FOLDER)
    assert {path: refs.contents(store, [blob])[0] for path, (_, _, blob) in copy.known.items()} == content
    assert not list((top / ".git" / scratch.NAME).iterdir())


def test_a_nested_repository_stays_out_and_the_same_is_stored_once(top: Path, make_repo: Callable[..., Path]) -> None:
    (top / "out").mkdir()
    git(top / "out", "init", "-q", "inner")
    (top / "a.db").write_text("x")
    first, second = save(top), save(top, after_s=1)
    assert (first.ref, list(first.known)) == (second.ref, ["a.db"])
    assert first.left_out == {"out/inner/": "it is another repository"}


def test_old_ones_go_if_another_one_has_all_of_it(top: Path) -> None:
    repo = open_repository(top / ".git")
    (top / "a.db").write_text("1")
    save(top)
    (top / "b.db").write_text("2")
    more = save(top, after_s=1)
    (top / "a.db").write_text("3")
    other = save(top, after_s=2)
    held, alone = private.old(repo, AT + timedelta(days=1))
    assert len(held) == 1 and [ref.name for ref in alone] == [more.ref, other.ref]
    assert private.old(repo, AT - timedelta(days=1)) == ([], [])


def test_where_it_cannot_be_stored_nothing_is_said_to_be(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (top / "a.db").write_text("1")
    save(top)
    (top / "b.db").write_text("2")
    (top / ".git" / private.FOLDER / "objects").rename(top / ".git" / "away")
    (top / ".git" / private.FOLDER / "objects").write_text("in the way")
    with pytest.raises(GitFailed):
        save(top, after_s=1)


@pytest.mark.req("NFR-SEC-001")
def test_no_file_that_git_would_see_is_given_back_to_its_place(top: Path) -> None:
    (top / ".env").write_text("KEY=1")
    (top / "my.db").write_text("1")
    save(top)
    (top / ".env").unlink()
    commit(top, {".gitignore": "*.db\n"})
    (top / "my.db").write_text("2")
    repo = open_repository(top / ".git")
    for number in ("", "-2"):
        restored = private.restore(repo, private.listing(repo), top)
        assert restored.aside == {path: f"{private.RECOVERED}/{path}{number}" for path in (".env", "my.db")}
    assert git(top, "status", "--porcelain", "--untracked-files=all") == ""
    assert (top / private.RECOVERED / ".env").read_text() == "KEY=1"


def test_a_torn_file_takes_the_place_of_no_whole_one(top: Path) -> None:
    repo = open_repository(top / ".git")
    (top / "a.db").write_text("whole")
    (top / "b.db").write_text("1")
    older = save(top)
    (top / "a.db").write_text("it grows")
    (top / "b.db").write_text("2")
    what = found(top)
    (top / "a.db").write_text("it grows and grows")
    torn = save(top, what, after_s=1)
    assert not private.drop_replaced(repo, older, torn)
    merged = private.merge(repo, older, torn)
    assert merged is not None and merged.left_out == {}
    (saved,) = private.listing(repo)
    assert (saved.ref, saved.sha, saved.reason) == (torn.ref, merged.sha, "a turn")
    store = Git(top / ".git" / private.FOLDER)
    assert refs.contents(store, [merged.known[path][2] for path in ("a.db", "b.db")]) == [b"whole", b"2"]


def test_what_is_taken_of_a_worktree_that_is_being_deleted_hides_nothing_of_what_was_taken_before(
    top: Path, tmp_path: Path
) -> None:
    """An older copy of the same worktree fills in; one of another worktree that had its name does not."""
    repo, into = open_repository(top / ".git"), tmp_path / "into"
    (top / "other.db").write_text("other")
    save(top, of="another")
    (top / "other.db").unlink()
    for name, text in (("a.db", "1"), ("b.db", "1"), ("c.db", "1")):
        (top / name).write_text(text)
    save(top, after_s=1)
    (top / "a.db").unlink()
    (top / "b.db").write_text("2")
    what = found(top)
    (top / "c.db").write_text("torn")
    save(top, what, after_s=2)
    git(tmp_path, "init", "-q", "into")
    (into / ".git/info/exclude").write_text("*.db\n")
    restored = private.restore(repo, private.of_the_newest(private.listing(repo, "w1")), into)
    assert {path.name: path.read_text() for path in into.glob("*.db")} == {"a.db": "1", "b.db": "2", "c.db": "1"}
    assert restored.left_out == {} and sorted(restored.files) == ["a.db", "b.db", "c.db"]


def test_a_large_cache_hides_no_file_beside_it_and_what_was_not_reached_is_named(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ignored, "MOST_LOOKED_AT", 4)
    for name in (
        *(f"out/a-cache/{number}" for number in range(9)),
        "out/a-cache/inner/x",
        "out/data/my",
        ".env",
        "z.db",
    ):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("x")
    what = found(top)
    assert {".env", "z.db", "out/data/my"} <= what.files.keys() and len(what.files) == 4
    assert what.left_out.keys() == {"out/a-cache/", "out/a-cache/inner/"}
