"""Candidates in every shape, made without a checkout; and their signatures."""

from __future__ import annotations

import subprocess
from datetime import datetime, timezone
from pathlib import Path

import pytest

from corral.core.errors import GitFailed
from corral.git import signing
from corral.git.land import candidates
from corral.git.land.candidates import Behind, Candidate, Conflicted, Style
from corral.git.process.command import Git, Identity
from tests.conftest import commit, git
from tests.support.programs import requires

ME = Identity("Me", "me@x")
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
LINES = [f"line {n}" for n in range(20)]
HER = ("--author=Ada <ada@x>", "--date=1700000000 +0230")


def text(**changed: str) -> str:
    """The twenty lines, some of them changed."""
    return "".join(f"{changed.get(line.replace(' ', '_'), line)}\n" for line in LINES)


def build(me: Git, style: Style, head: str = "side", base: str | None = None) -> Candidate | Conflicted | None:
    root = me.common_dir.parent
    tip, sha = git(root, "rev-parse", "main"), git(root, "rev-parse", head)
    return candidates.build(me, tip, sha, "Land it\n", ME, AT, style=style, begun_on=[base] if base else [])


def built(me: Git, style: Style, head: str = "side", base: str | None = None) -> Candidate:
    candidate = build(me, style, head, base)
    assert isinstance(candidate, Candidate), candidate
    return candidate


@pytest.fixture
def forked(repo: Path, me: Git) -> Git:
    """``side`` has two commits of Ada's, ``main`` one more that changes the same file elsewhere."""
    commit(repo, {"f": text()})
    git(repo, "switch", "-q", "-c", "side")
    (repo / "f").write_text(text(line_15="fifteen"))
    git(repo, "commit", "-qam", "first\n\nWhy it is so.", *HER)
    (repo / "g").write_text("g\n")
    git(repo, "add", "g")
    git(repo, "commit", "-qm", "second", *HER)
    git(repo, "switch", "-q", "main")
    commit(repo, {"f": text(line_0="zero")})
    return me


def test_a_squash_is_one_commit_of_its_author_with_the_tree_of_the_merge(forked: Git, repo: Path) -> None:
    squashed = built(forked, "squash")
    assert squashed.tree == built(forked, "merge").tree
    shown = git(repo, "log", "-1", "--format=%P|%an %ae %ad|%cn|%ct|%s", "--date=raw", squashed.sha)
    assert shown == f"{git(repo, 'rev-parse', 'main')}|Ada ada@x 1700000000 +0230|Me|{int(AT.timestamp())}|Land it"
    assert built(forked, "squash") == squashed, "the same squash is the same commit"
    git(repo, "update-ref", "refs/heads/main", squashed.sha)
    assert build(forked, "squash") is None and build(forked, "rebase") is None, "nothing of it is missing any more"


def test_a_rebase_keeps_each_commit_that_still_changes_something(forked: Git, repo: Path) -> None:
    commit(repo, {"g": "g\n"}, "main has this by now")
    rebased = built(forked, "rebase")
    assert rebased.tree == built(forked, "merge").tree
    log = git(repo, "log", "--format=%an %ad|%cn|%B", "--date=raw", f"main..{rebased.sha}")
    assert log == "Ada 1700000000 +0230|Me|first\n\nWhy it is so."
    git(repo, "switch", "-q", "-c", "ahead")
    head = commit(repo, {"h": "h\n"})
    assert built(forked, "rebase", "ahead").sha == head, "what is upon the target already stays what it is"


def test_commits_are_rebased_as_patches_and_a_conflict_names_its_file(forked: Git, repo: Path) -> None:
    git(repo, "switch", "-q", "side")
    commit(repo, {"f": text(line_15="fifteen", line_0="nought")})
    answer = build(forked, "rebase")
    assert isinstance(answer, Conflicted) and [(item.path, item.kind) for item in answer.paths] == [("f", "content")]


def test_a_rebase_of_a_branch_with_a_merge_keeps_what_the_merge_resolved(forked: Git, repo: Path) -> None:
    git(repo, "switch", "-q", "side")
    commit(repo, {"f": text(line_15="fifteen", line_0="nought")})
    git(repo, "merge", "-q", "main", check=False)
    commit(repo, {"f": text(line_15="fifteen", line_0="both")}, "Merge main")
    commit(repo, {"h": "h\n"}, "after it")
    git(repo, "switch", "-q", "main")
    commit(repo, {"elsewhere": "x\n"})
    rebased = built(forked, "rebase")
    assert rebased.tree == built(forked, "merge").tree, "replayed one by one its commits would conflict"
    assert git(repo, "log", "--reverse", "--format=%s", f"main..{rebased.sha}").splitlines() == ["Land it", "after it"]
    assert git(repo, "rev-list", "--merges", f"main..{rebased.sha}") == ""


def test_a_fast_forward_is_the_head_or_nothing(forked: Git, repo: Path) -> None:
    assert isinstance(build(forked, "fast-forward"), Behind)
    git(repo, "switch", "-q", "side")
    git(repo, "merge", "-q", "--no-edit", "main")
    assert built(forked, "fast-forward").sha == git(repo, "rev-parse", "side")


@pytest.mark.parametrize("style", ["merge", "squash", "rebase"])
def test_a_branch_goes_on_where_it_has_landed_under_another_name(forked: Git, repo: Path, style: Style) -> None:
    landed_head = git(repo, "rev-parse", "side")
    git(repo, "update-ref", "refs/heads/main", built(forked, "squash").sha)
    git(repo, "reset", "-q", "--hard", "main")
    commit(repo, {"f": text(line_0="zero", line_15="15")}, "main changes what the branch brought")
    git(repo, "switch", "-q", "side")
    commit(repo, {"h": "h\n"}, "more of it")
    assert isinstance(build(forked, style), Conflicted), "with git's own merge base it meets its own changes"
    more = built(forked, style, base=landed_head)
    assert git(repo, "diff", "--name-only", "main", more.sha) == "h"


def by_user(*lines: str) -> None:
    (Path.home() / ".gitconfig").write_text("\n".join(lines))


@pytest.mark.req("X7")
def test_only_the_users_own_configuration_has_commits_signed(forked: Git, repo: Path) -> None:
    for name, value in {"commit.gpgSign": "true", "gpg.program": "evil", "user.signingKey": "theirs"}.items():
        git(repo, "config", name, value)
    assert signing.own(forked) is None
    by_user("[commit]", "gpgSign")
    assert signing.own(forked) == signing.Signer("", {"gpg.format": "openpgp", "gpg.program": "gpg"})
    by_user(
        "[commit]",
        "gpgSign = yes",
        "[gpg]",
        "format = ssh",
        '[gpg "ssh"]',
        "program = mine",
        "[user]",
        "signingKey = k",
    )
    assert signing.own(forked) == signing.Signer("k", {"gpg.format": "ssh", "gpg.ssh.program": "mine"})
    by_user("[commit]", "gpgSign = true", "[gpg]", "format = ssh")
    with pytest.raises(GitFailed, match="no key is named"):
        signing.own(forked)


@requires("ssh-keygen")
def test_a_signed_commit_is_the_same_commit_with_a_signature(forked: Git, repo: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    git(repo, "config", "gpg.ssh.program", "/nowhere/evil")
    signer = signing.Signer(str(key), {"gpg.format": "ssh", "gpg.ssh.program": "ssh-keygen"})
    before = built(forked, "squash").sha
    signed = signing.sign(forked, before, {}, signer)
    assert signed != before
    form = "--format=%T|%P|%an %ae %ad|%cn %ce %cd|%B"
    assert git(repo, "log", "-1", "--date=raw", form, signed) == git(repo, "log", "-1", "--date=raw", form, before)
    allowed = tmp_path / "allowed"
    allowed.write_text(f"me@x {key.with_suffix('.pub').read_text()}")
    config = ["-c", f"gpg.ssh.allowedSignersFile={allowed}", "-c", "gpg.ssh.program=ssh-keygen"]
    git(repo, *config, "verify-commit", signed)
    assert signing.sign(forked, signed, {}, signer) == signed, "once is enough"
