"""Names, outcomes and messages: the pure parts of git/."""

from __future__ import annotations

import pytest

from corral.core.errors import InvalidInput
from corral.git.commits import message_with
from corral.git.process.command import Outcome, classify
from corral.git.refs import branch_ref, full_ref, oid

HOSTILE = [
    "", "-c", "--output=x", "--upload-pack=x", "refs/heads/--x", "a/--output=x", "@", "@{-1}", "main@{1}", "a..b", "HEAD:f",
    "a b", "a\nb", "a\0b", "a\x7f", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "/a", "a/", "a//b", ".a", "a/.b", "a.lock",
    "a.lock/b", "a.", "HEAD", "x" * 201,
]  # fmt: skip


@pytest.mark.req("X6")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_branch_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        branch_ref(name)


@pytest.mark.parametrize("name", ["main", "feature/x-1", "corral/a.b_c", "ünïcode", "@x", "refs/heads/main"])
def test_a_plain_branch_name_becomes_its_full_ref(name: str) -> None:
    assert branch_ref(name) == "refs/heads/" + name.removeprefix("refs/heads/")


@pytest.mark.req("X6")
@pytest.mark.parametrize("text", ["main", "refs/heads/--x", "refs/heads/a\0b", "refs/heads/a b", "refs/heads/"])
def test_only_a_full_ref_passes_for_one(text: str) -> None:
    with pytest.raises(InvalidInput):
        full_ref(text)


@pytest.mark.parametrize("text", ["main", "a" * 39, "A" * 40, "a" * 41, "a" * 40 + "\n", "--x"])
def test_only_a_whole_object_name_passes_for_one(text: str) -> None:
    with pytest.raises(InvalidInput):
        oid(text)


@pytest.mark.parametrize(
    ("verb", "rc", "stderr", "outcome"),
    [
        ("merge", 0, "warning: whatever", Outcome.OK),
        ("merge-tree", 1, "", Outcome.CONFLICT),
        ("merge", 1, "error: ...", Outcome.REFUSED),
        ("merge-base", 1, "", Outcome.REFUSED),
        ("merge-tree", 128, "fatal: refusing to merge unrelated histories", Outcome.REFUSED),
        ("update-ref", 128, "fatal: cannot lock ref 'refs/heads/x': is at 1 but expected 2", Outcome.REFUSED),
        ("update-ref", 128, "fatal: cannot lock ref 'x': Unable to create '/r/x.lock': File exists.", Outcome.LOCK),
        ("config", 255, "error: could not lock config file .git/config: File exists", Outcome.LOCK),
        ("status", 128, "fatal: not a git repository", Outcome.INFRA),
        ("merge-tree", -9, "", Outcome.INFRA),
        ("add", 128, "fatal: write error: No space left on device", Outcome.INFRA),
    ],
)
def test_an_exit_code_alone_is_never_a_conflict(verb: str, rc: int, stderr: str, outcome: Outcome) -> None:
    assert classify(verb, rc, stderr) is outcome


def test_a_trailer_cannot_forge_another() -> None:
    text = message_with("Do it\n", {"Corral-Task": "1\nSigned-off-by: somebody"})
    assert text == "Do it\n\nCorral-Task: 1 Signed-off-by: somebody\n"
