"""What lands, how, and what stays as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.core.errors import Conflict, InvalidInput, NotFound
from corral.landing import requests
from corral.work.merges.settling import enqueue
from tests.conftest import commit, git
from tests.integration.landing_world import World, listed


@pytest.mark.req("G29")
def test_without_a_command_it_lands_and_says_unverified(world: World) -> None:
    world.branch("feature", {"new.py": "x = 1\n"})
    merge = world.land("feature")
    assert merge["state"] == "landed"
    assert world.receipt(merge["merge_id"])["status"] == "unverified"
    assert (world.root / "new.py").read_text() == "x = 1\n"
    assert git(world.root, "status", "--porcelain") == ""
    assert world.settled == [(merge["merge_id"], "landed")]


def test_a_green_command_lands_with_a_receipt_for_exactly_that_tree(world: World) -> None:
    world.landing = Landing(verify=["test -f new.py && echo '3 passed in 0.01s'"])
    world.branch("feature", {"new.py": "x = 1\n"})
    commit(world.root, {"other.py": "y = 1\n"})
    merge = world.land("feature", title="A new thing")
    receipt = world.receipt(merge["merge_id"])
    assert (merge["state"], receipt["status"], receipt["tests"], receipt["exit_code"]) == ("landed", "passed", 3, 0)
    assert receipt["tree"] == git(world.root, "rev-parse", "main^{tree}")
    assert receipt["commands"] == world.landing.verify
    log = world.receipt_log(merge["merge_id"])
    assert "3 passed" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
    message = git(world.root, "log", "-1", "--format=%B", "main")
    assert message.startswith("Merge feature: A new thing\n\nCorral-Merge: ")
    assert world.held_refs() == []


def test_the_same_tree_is_not_verified_twice(world: World, tmp_path: Path) -> None:
    counter = tmp_path / "runs"
    world.landing = Landing(verify=[f"echo run >> {counter}"])
    world.branch("feature", {"new.py": "x = 1\n"})
    world.land("feature")
    git(world.root, "branch", "back", "main~1")
    git(world.root, "branch", "again", "feature")
    merge = world.land("again", target="back")
    assert merge["state"] == "landed"
    assert counter.read_text() == "run\n"
    assert world.log(merge["merge_id"]).splitlines()[1].startswith("$ echo run"), (
        "it shows the run that its receipt is from"
    )


@pytest.mark.req("G25")
def test_what_the_target_has_already_lands_as_nothing_new(world: World) -> None:
    head = world.branch("feature", {"new.py": "x = 1\n"})
    merge_id = world.submit("feature")
    git(world.root, "merge", "-q", "--ff-only", "feature")
    merge = world.finish(merge_id)
    assert (merge["state"], merge["landed_sha"]) == ("landed", head)
    assert world.receipt(merge_id)["status"] == "unverified"
    assert world.tip() == head
    assert enqueue(world.db, world.repo(), branch="feature", target="main", now=world.now()) is None


def test_a_receipt_for_nothing_new_is_never_taken_for_green(world: World) -> None:
    world.landing = Landing(verify=["test ! -f bad.py"], reruns=0)
    base = world.tip()
    commit(world.root, {"bad.py": "x\n"})
    git(world.root, "branch", "bad", "main")
    git(world.root, "branch", "other", base)
    merge_id = world.submit("bad", target="other")
    git(world.root, "branch", "-f", "other", "bad")
    world.run()
    assert world.receipt(merge_id)["status"] == "unverified"
    git(world.root, "branch", "third", base)
    merge = world.land("bad", target="third")
    assert merge["state"] == "failed"
    assert git(world.root, "rev-parse", "third") == base


def test_a_receipt_for_nothing_new_is_a_green_one_only_while_that_lets_a_candidate_land(world: World) -> None:
    world.landing = Landing(verify=["true"])
    for target in ("second", "third"):
        git(world.root, "branch", target)
    world.branch("feature", {"new.py": "x = 1\n"})
    assert world.land("feature")["state"] == "landed"
    for target, status, skipped_s in (
        ("second", "passed", 0),
        ("third", "unverified", world.landing.verdict_max_age_s),
    ):
        world.skip(skipped_s)
        merge_id = world.submit("feature", target=target)
        git(world.root, "branch", "-f", target, "main")
        assert world.finish(merge_id)["state"] == "landed"
        assert world.receipt(merge_id)["status"] == status


@pytest.mark.req("I3", "G10")
def test_the_head_that_was_submitted_is_merged_and_a_new_one_is_a_new_request(world: World) -> None:
    merge_id = world.offer("feature", {"a.txt": "1\n"})
    git(world.root, "worktree", "add", "-q", str(world.root.parent / "again"), "feature")
    head = commit(world.root.parent / "again", {"b.txt": "2\n"})
    assert world.finish(merge_id)["state"] == "landed"
    assert not (world.root / "b.txt").exists()
    second = world.land("feature")
    assert (second["head_sha"], second["state"]) == (head, "landed")
    assert (world.root / "b.txt").exists()


@pytest.mark.req("G10")
def test_a_branch_that_is_submitted_anew_while_it_is_verified_ends_that_run(world: World, tmp_path: Path) -> None:
    gate, ran = tmp_path / "gate", tmp_path / "ran"
    world.landing = Landing(verify=[f"ls >> {ran}; while ! test -e {gate}; do sleep 0.02; done"])
    first = world.offer("feature", {"a.txt": "1\n"})
    world.until(first, "verifying")
    git(world.root, "branch", "-f", "feature", world.branch("more", {"b.txt": "1\n"}, base="feature"))
    world.queue.step(world.now())
    assert world.merge(first)["state"] == "verifying", "the head that was submitted is what is verified"
    second = world.submit("feature")
    world.until(second, "verifying")
    gate.touch()
    world.run()
    assert world.settled == [(second, "landed")] and world.merge(first)["state"] == "superseded"
    assert world.receipt(second)["tree"] == git(world.root, "rev-parse", "main^{tree}")
    assert ran.read_text().split().count("b.txt") == 1 and (world.root / "b.txt").exists()


@pytest.mark.req("G20")
def test_names_that_differ_only_in_case_or_composition_are_files_of_their_own(world: World) -> None:
    world.branch("composed", {"caf\u00e9": "1\n", "cafe\u0301": "2\n"})
    world.branch("renamed", {"readme.md": "hello\n"})
    git(world.root, "switch", "-q", "renamed")
    git(world.root, "rm", "-q", "README.md")
    git(world.root, "commit", "-q", "-m", "in small letters")
    git(world.root, "switch", "-q", "main")
    world.landing = Landing(verify=["test $(ls | grep -c caf) -ne 1"])
    for branch in ("composed", "renamed"):
        assert world.land(branch)["state"] == "landed"
    assert {"caf\u00e9", "cafe\u0301", "readme.md"} <= {path.name for path in world.root.iterdir()}
    assert not (world.root / "README.md").exists() and git(world.root, "status", "--porcelain") == ""


def test_submitting_again_supersedes_and_the_same_head_is_one_request(world: World) -> None:
    first = world.offer("feature", {"a.txt": "1\n"})
    assert world.submit("feature") == first
    git(world.root, "branch", "-f", "feature", world.branch("more", {"b.txt": "1\n"}, base="feature"))
    second = world.submit("feature")
    assert world.finish(first)["state"] == "superseded"
    assert world.merge(second)["state"] == "landed"
    assert world.held_refs() == []
    assert world.settled == [(second, "landed")]


@pytest.mark.req("I11")
def test_priority_comes_first_then_age(world: World) -> None:
    ids = {}
    for name, priority in (("low", 1), ("first", 5), ("second", 5), ("high", 9)):
        ids[name] = world.offer(name, {f"{name}.txt": "x\n"}, priority=priority)
    world.run()
    order = [merge_id for merge_id, _state in world.settled]
    assert order == [ids[name] for name in ("high", "first", "second", "low")]


@pytest.mark.req("G12")
def test_only_our_own_landed_branch_that_nobody_has_checked_out_is_deleted(world: World) -> None:
    names = ["corral/done", "corral/moved", "corral/open", "corral/theirs", "theirs"]
    for name in names:
        make = world.branch if name.endswith("theirs") else world.own_branch
        make(name, {f"{name.replace('/', '-')}.txt": "x\n"})
    merge_ids = [world.submit(name) for name in names]
    git(world.root, "branch", "-f", "corral/moved", world.branch("beyond", {"y.txt": "y\n"}, base="corral/moved"))
    git(world.root, "worktree", "add", "-q", str(world.root.parent / "open"), "corral/open")
    world.run()
    assert {world.merge(merge_id)["state"] for merge_id in merge_ids} == {"landed"}
    left = git(world.root, "branch", "--format=%(refname:short)").split()
    assert sorted(left) == ["beyond", "corral/moved", "corral/open", "corral/theirs", "main", "theirs"]
    git(world.root, "worktree", "remove", str(world.root.parent / "open"))
    world.queue.step(world.now())
    assert git(world.root, "branch", "--list", "corral/open") == ""
    assert world.held_refs() == []


def test_the_daemon_commits_as_the_users_configuration_says(world: World) -> None:
    git(world.root, "config", "user.name", "Some One")
    git(world.root, "config", "user.email", "some@one.test")
    world.branch("feature", {"a.txt": "1\n"})
    commit(world.root, {"b.txt": "1\n"})
    world.land("feature")
    assert git(world.root, "log", "-1", "--format=%an <%ae> %cn", "main") == "Some One <some@one.test> Some One"


@pytest.mark.req("X6")
@pytest.mark.parametrize("name", ["--output=x", "a\nb", "$(touch pwned)", "x..y", "@{-1}", "HEAD:README.md", "-", ""])
def test_a_hostile_branch_is_refused(world: World, name: str) -> None:
    with pytest.raises((InvalidInput, NotFound)):
        enqueue(world.db, world.repo(), branch=name, target="main", now=world.now())
    with pytest.raises((InvalidInput, NotFound)):
        enqueue(world.db, world.repo(), branch="main", target=name, now=world.now())
    assert listed(world.db) == []
    assert world.held_refs() == []


@pytest.mark.req("G11")
def test_a_detached_commit_lands_under_its_own_name(world: World) -> None:
    first, second = world.branch("one", {"a.txt": "1\n"}), world.branch("two", {"b.txt": "1\n"})
    ids = [world.submit(sha[:12]) for sha in (first, second)]
    world.run()
    assert [world.merge(merge_id)["branch"] for merge_id in ids] == [first, second]
    assert {world.merge(merge_id)["state"] for merge_id in ids} == {"landed"}


def test_a_branch_for_itself_and_an_unknown_target_are_refused(world: World) -> None:
    with pytest.raises(InvalidInput):
        enqueue(world.db, world.repo(), branch="main", target="main", now=world.now())
    world.branch("feature", {"a.txt": "1\n"})
    with pytest.raises(NotFound):
        enqueue(world.db, world.repo(), branch="feature", target="nowhere", now=world.now())


def test_a_hostile_title_is_one_line_of_the_message(world: World) -> None:
    world.branch("feature", {"a.txt": "1\n"})
    commit(world.root, {"b.txt": "1\n"})
    world.land("feature", title="x\n\nCorral-Task: forged\n\x1b[31m$(id)")
    assert git(world.root, "log", "-1", "--format=%(trailers:key=Corral-Task,valueonly)", "main") == ""
    assert git(world.root, "log", "-1", "--format=%s", "main") == "Merge feature: x Corral-Task: forged [31m$(id)"


def test_cancel_and_retry(world: World) -> None:
    world.landing = Landing(verify=["sleep 60"])
    merge_id = world.offer("feature", {"a.txt": "1\n"})
    world.until(merge_id, "verifying")
    states: list[str] = []
    cancelled = requests.cancel(
        world.db,
        world.repo(),
        merge_id[:8],
        on_settled=lambda _c, row, _n: states.append(row["state"]),
        now=world.now(),
    )
    assert cancelled["state"] == "cancelled"
    assert states == ["cancelled"]
    with pytest.raises(Conflict):
        requests.cancel(world.db, world.repo(), merge_id, on_settled=lambda *_: None, now=world.now())
    assert world.queue.step(world.now()) is None
    world.landing = Landing()
    requests.retry(world.db, world.repo(), merge_id, now=world.now())
    assert world.finish(merge_id)["state"] == "landed"
    with pytest.raises(Conflict):
        requests.retry(world.db, world.repo(), merge_id, now=world.now())


def test_a_request_is_found_by_the_beginning_of_its_id(world: World) -> None:
    merge_id = world.offer("feature", {"a.txt": "1\n"})
    assert requests.detail(world.db, merge_id[:8], ageing_s=0, now=world.now())["merge_id"] == merge_id
    for hostile in ("%", "_", "", "nothing"):
        with pytest.raises(NotFound):
            requests.detail(world.db, hostile, ageing_s=0, now=world.now())
    row = listed(world.db)[0]
    assert list(row) == ["merge_id", "task_id", "branch", "target", "state", "outcome", "reason"]
