"""What agents' work came to, and the versions of their definitions, with programs that stand in for a client."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import Conflict, CorralError, InvalidInput, NotFound
from tests.conftest import commit_all, git
from tests.integration.test_agents import define, ended
from tests.support.coordinated import Coordinated, eventually

NOTES = "runner: note\ncommand: [sh, -c, 'echo \"$CORRAL_TASK_ID\" > note.txt; {then}']"


def scribe(house: Coordinated, body: str, *, then: str = "true", more: str = "") -> Path:
    return define(house, "scribe", NOTES.replace("{then}", then) + more, body)


def work(house: Coordinated, **fields: Any) -> str:
    task = {"title": "Note", "agent": "scribe", "prompt": "Note it.", "max_retries": 0, **fields}
    task_id = str(house.ask("POST", "/tasks", task)["task_id"])
    ended(house, task_id)
    return task_id


def known(house: Coordinated) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = house.json("agent", "versions", "scribe")
    return answer


def figures(house: Coordinated, *args: str) -> dict[str, dict[str, Any]]:
    """By group; "" is all of the agent."""
    return {row["group"] or "": row for row in house.json("agent", "stats", "scribe", *args)}


def refused(house: Coordinated, version: str) -> CorralError:
    with pytest.raises(CorralError) as error:
        house.ask("POST", "/agents/scribe/rollback", {"version": version})
    return error.value


@pytest.mark.req("FR-META-004")
def test_every_text_of_a_definition_is_a_version_with_author_reason_and_changelog(house: Coordinated) -> None:
    file = scribe(house, "Write it down.")
    commit_all(house.root, "Add a scribe", str(file), force=True)
    (new,) = known(house)
    assert (new["version"], new["used"], new["current"]) == ("1.0.0", False, True)
    work(house)
    work(house)
    (first,) = known(house)
    assert (first["version"], first["used"], first["changelog"]) == ("1.0.0", True, None)
    assert first["content_hash"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert (first["reason"], first["author"]) == (
        "Add a scribe",
        git(house.root, "log", "-1", "--format=%an <%ae>", "--", str(file)).strip(),
    )
    scribe(house, "Write it down, and sign.")
    work(house)
    scribe(house, "Write more.", more="\nversion: 3.0.0\nchangelog: Longer notes.")
    work(house)
    scribe(house, "Write even more.", more="\nversion: 3.0.0")
    work(house)
    versions = [(row["version"], row["changelog"], row["author"]) for row in known(house)]
    assert [version for version, _, _ in versions] == ["3.1.0", "3.0.0", "1.1.0", "1.0.0"]
    assert versions[1][1:] == ("Longer notes.", None) and versions[2][1:] == ("1 line added, 1 removed", None)
    patch = house.json("agent", "diff", "scribe", "1.0.0", "v1.1.0")["patch"]
    assert "-Write it down.\n+Write it down, and sign.\n" in patch
    old = house.json("agent", "show", "scribe", "--version", first["content_hash"][:8])
    assert old["content"].endswith("\nWrite it down.\n") and not old["current"]


@pytest.mark.req("FR-META-004")
def test_going_back_is_a_change_that_git_shows_and_never_loses_text(house: Coordinated) -> None:
    file = scribe(house, "Write it down.")
    work(house)
    before = file.read_text()
    scribe(house, "Do not write.")
    assert isinstance(refusal := refused(house, "1.0.0"), Conflict) and "in no commit" in refusal.message
    assert file.read_text().endswith("Do not write.\n")
    commit_all(house.root, "Change the scribe", str(file), force=True)
    answer = house.json("agent", "rollback", "scribe", "1.0.0")
    assert (answer["version"], answer["changed"], file.read_text()) == ("1.0.0", True, before)
    assert git(house.root, "status", "--porcelain", str(file)).split()[0] == "M"
    assert house.json("agent", "rollback", "scribe", "1.0.0")["changed"] is False
    house.trust()
    task_id = work(house)
    eventually(lambda: git(house.root, "show", "main:note.txt").strip() == task_id)
    assert [row["version"] for row in known(house) if row["used"]] == ["1.0.0"], "an old text is no new version"
    assert isinstance(refused(house, "9.9.9"), NotFound)
    with pytest.raises(InvalidInput, match="not defined by a file of this project"):
        house.ask("POST", "/agents/implementer/rollback", {"version": "1.0.0"})


@pytest.mark.req("FR-META-001", "FR-META-002")
def test_the_record_tells_versions_and_types_apart_and_counts_feedback(house: Coordinated) -> None:
    scribe(house, "Write it down.")
    good = [work(house, task_type="note"), work(house, task_type="letter")]
    scribe(house, "Write, and fail.", then="exit 3")
    work(house, task_type="note")
    assert house.json("task", "feedback", good[0], "--rating", "2")["agent"] == "scribe"
    house.json("task", "feedback", good[0], "--rating", "5", "--comment", "Clear.")
    every = figures(house, "--by", "version")
    whole, one, two = every[""], every["1.0.0"], every["1.1.0"]
    assert (whole["tasks"], whole["outcomes"]) == (3, {"completed": 2, "failed": 1})
    assert one["success"] == {"rate": 1.0, "low": 0.3424, "high": 1.0, "hits": 2, "of": 2}
    assert (one["first_try_landing"]["hits"], one["landed"], one["duration_s"]["of"]) == (2, 2, 2)
    assert one["feedback"] == {"ratings": 1, "mean": 5.0, "comments": ["Clear."]}, "the last word counts"
    assert (two["success"]["hits"], two["success"]["of"], two["feedback"]["ratings"]) == (0, 1, 0)
    types = figures(house, "--by", "task_type")
    assert (types["note"]["tasks"], types["letter"]["tasks"]) == (2, 1)
    assert "100 % (34-100)" in house.run("agent", "stats", "scribe", "--by", "version").stdout


@pytest.mark.req("FR-META-001", "FR-META-002")
def test_feedback_counts_for_the_version_of_the_last_attempt(house: Coordinated) -> None:
    scribe(house, "Write it down.", then="exit 3")
    task_id = work(house)
    scribe(house, "Write more.")
    house.run("task", "retry", task_id)
    ended(house, task_id)
    house.run("task", "feedback", task_id, "--rating", "4")
    records = figures(house, "--by", "version")
    assert [records[name]["feedback"]["ratings"] for name in ("", "1.0.0", "1.1.0")] == [1, 0, 1]
    assert (records[""]["retries"], records[""]["first_try_landing"]["hits"], records["1.0.0"]["landed"]) == (1, 0, 0)


@pytest.mark.req("FR-META-002")
def test_feedback_on_nothing_is_refused(house: Coordinated) -> None:
    waiting = house.ask("POST", "/tasks", {"title": "Talk", "description": "A session does it."})["task_id"]
    for task_id, body, message in (
        (waiting, {"rating": 3}, "Nobody has worked"),
        (waiting, {"comment": "  "}, "needs a rating or a comment"),
        ("ffff0000", {"rating": 3}, "There is no task"),
        (waiting, {"rating": 6}, "rating"),
    ):
        with pytest.raises(CorralError, match=message):
            house.ask("POST", f"/tasks/{task_id}/feedback", body)
