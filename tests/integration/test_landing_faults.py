"""Faults that blame nobody: what the machine did wrong makes a request wait, pauses its target, and ends no request."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.core.errors import Conflict, GitFailed
from corral.core.instants import iso
from corral.landing import requests
from corral.landing.verify.blame import LONGEST_WAIT_S
from corral.store.rows.merges import Intent
from corral.work.merges.store import intents
from tests.conftest import git
from tests.integration.git.test_git_wrapper import shim
from tests.integration.landing_world import World, in_a_process, listed, why
from tests.integration.running import is_alive, keeper_of
from tests.support.coordinated import eventually

pytestmark = pytest.mark.timeout(120)


def states(world: World, *merge_ids: str) -> list[str]:
    return [world.merge(merge_id)["state"] for merge_id in merge_ids]


def several(world: World, number: int, target: str = "main") -> list[str]:
    for count in range(number):
        world.branch(f"f{count}", {f"f{count}.txt": "x\n"})
    return [world.submit(f"f{count}", target) for count in range(number)]


@pytest.mark.req("I9")
def test_a_request_at_which_git_itself_aborts_comes_back_with_what_to_do_and_holds_nobody(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.landing = Landing(verify=["true"])
    good, bad = several(world, 2)
    git(world.root, "commit", "-q", "--allow-empty", "-m", "so that a merge is needed")
    head = world.merge(bad)["head_sha"]
    says = "echo \"git: merge-ort.c:1: merge: Assertion 'x' failed.\" >&2; kill -ABRT $$"
    shim(tmp_path / "bin", monkeypatch, f'case " $* " in *" merge-tree "*" {head} ") {says};; esac; exec "$REAL" "$@"')
    world.run()
    assert states(world, good, bad) == ["landed", "failed"]
    assert "merge-ort.c:1" in why(world.merge(bad)) and "git rebase main" in why(world.merge(bad))
    assert world.pause() is None


@pytest.mark.req("I5")
@pytest.mark.parametrize("verb", ["merge-tree", "read-tree", "worktree add", "update-ref"])
def test_a_git_that_is_killed_again_and_again_fails_nobody_and_all_lands_when_it_lives(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    world.landing = Landing(verify=["true"])
    ids = several(world, 3)
    git(world.root, "commit", "-q", "--allow-empty", "-m", "so that a merge is needed")
    with monkeypatch.context() as patched:
        shim(tmp_path / "bin", patched, f'case " $* " in *" {verb} "*) kill -9 $$;; esac; exec "$REAL" "$@"')
        world.spend(900, deadline_s=60)
        assert set(states(world, *ids)) <= {"queued", "verifying"}
        assert world.pause() is not None
        assert world.settled == []
    world.spend(300, deadline_s=60)
    assert states(world, *ids) == ["landed"] * 3
    assert world.pause() is None


def test_a_request_that_meets_a_fault_waits_while_others_go_past_it_and_one_verdict_ends_the_pause(
    world: World,
) -> None:
    world.landing = Landing(verify=["test ! -e poison.txt || kill -9 $$"])
    poison = world.offer("poison", {"poison.txt": "x\n"})
    world.spend(100)
    assert world.merge(poison)["state"] == "queued" and world.merge(poison)["tries"] >= 4
    assert world.pause() is not None, "nothing but faults is known of the target"
    ids = several(world, 3)
    world.spend(300)
    assert states(world, *ids) == ["landed"] * 3, "the one that was tried least is tried first"
    assert world.pause() is None
    assert world.merge(poison)["state"] == "queued"
    (reason,) = [row["reason"].splitlines()[0] for row in listed(world.db) if row["merge_id"] == poison]
    assert f"; at once: `corral merge retry {poison[:8]}`." in reason


def test_the_pause_says_why_and_ends_at_once_when_a_person_asks(world: World, tmp_path: Path) -> None:
    world.landing = Landing(verify=[f"test -e {tmp_path}/up || kill -9 $$"])
    first, second = several(world, 2)
    world.spend(200)
    paused = world.pause()
    assert paused is not None and paused["failures"] > 3 and "killed from outside" in paused["reason"]
    shown = {row["merge_id"]: row["reason"] for row in listed(world.db)}
    assert all("main is paused and looked at again at" in shown[merge_id] for merge_id in (first, second))
    assert "killed from outside" in requests.detail(world.db, second, ageing_s=0, now=world.now())["reason"]
    assert world.events().count("target.paused") == 1
    (tmp_path / "up").touch()
    world.spend(1)
    assert states(world, first, second) == ["queued", "queued"], "its time has not come"
    requests.retry(world.db, world.repo(), second, now=world.now())
    world.spend(10)  # less than the wait that is left, and enough on a slow machine
    assert states(world, first, second) == ["landed", "landed"], "nobody else had to wait any longer"
    assert world.events().count("target.resumed") == 1


@pytest.mark.req("G27")
@pytest.mark.req("I5")
def test_a_time_out_is_blamed_on_the_change_only_if_it_repeats_and_the_target_is_in_time(world: World) -> None:
    world.landing = Landing(verify=["test ! -e slow.txt || sleep 300"], timeout_s=40)
    slow = world.offer("slow", {"slow.txt": "x\n"})
    for run in ("first", "second"):
        world.until(slow, "verifying")
        log = world.project.logs_dir / "merges" / slow / ("1.log" if run == "first" else "3.log")
        while not log.exists():
            world.queue.step(world.now())
        assert world.merge(slow)["state"] == "verifying", "no verdict against it yet"
        world.watch(41)
    merge = world.merge(slow)
    assert merge["state"] == "failed"
    assert "took longer than landing.timeout_s (40 s)" in why(merge)
    assert re.search(r"That happened twice, while main without it passed in \d", why(merge))
    assert world.pause() is None


@pytest.mark.req("I5")
def test_a_machine_that_is_slow_once_blames_nobody(world: World, tmp_path: Path) -> None:
    world.landing = Landing(
        verify=[f"test -e {tmp_path}/fast || {{ touch {tmp_path}/fast; sleep 300; }}"], timeout_s=40
    )
    (merge_id,) = several(world, 1)
    world.until(merge_id, "verifying")
    while not (tmp_path / "fast").exists():
        world.queue.step(world.now())
    world.watch(41)
    assert world.finish(merge_id)["state"] == "landed"


def test_a_full_disk_that_a_command_met_and_tidied_up_fails_nobody(world: World, tmp_path: Path) -> None:
    """What it had written is gone when Corral looks: only what the command printed tells of the disk."""
    up = tmp_path / "up"
    world.landing = Landing(verify=[f"test -e {up} || {{ echo 'built.o: No space left on device' >&2; exit 1; }}"])
    ids = several(world, 3)
    world.spend(30)
    assert {world.merge(merge_id)["state"] for merge_id in ids} == {"queued"} and world.settled == []
    pause = world.pause()
    assert pause is not None and "No space left on device" in pause["reason"]
    up.touch()
    world.spend(60)
    assert world.settled == [(merge_id, "landed") for merge_id in ids]


def test_a_change_that_fills_the_disk_by_itself_comes_back(world: World) -> None:
    world.landing = Landing(verify=["test ! -e f0.txt || { echo 'No space left on device'; exit 1; }"])
    (merge_id,) = several(world, 1)
    merge = world.finish(merge_id)
    assert merge["state"] == "failed" and "No space left" in why(merge) and "happened twice" in why(merge)


def test_what_a_change_does_to_its_setup_is_blamed_on_it_and_what_the_network_does_is_not(world: World) -> None:
    world.landing = Landing(verify=["true"])
    world.branch("broken", {"package.json": "{\n"})
    ids = several(world, 1)

    def set_up(path: Path) -> dict[str, str]:
        if (path / "package.json").exists():
            raise GitFailed(
                "The setup of the worktree failed: npm ci", cause="It ended with 1.", details={"exit_code": 1}
            )
        return {}

    world.prepare = set_up
    broken = world.submit("broken")
    world.run()
    assert states(world, broken, *ids) == ["failed", "landed"]
    assert "npm ci" in why(world.merge(broken)) and "That happened twice" in why(world.merge(broken))


def test_a_daemon_that_died_is_not_the_requests_fault_and_one_that_dies_with_it_lets_others_past(world: World) -> None:
    verify = "test ! -e f0.txt || sleep 300"
    world.landing = Landing(verify=[verify])
    first, second = several(world, 2)
    keepers = world.project.verifications_dir
    for tries in (1, 2):
        daemon = in_a_process(world.root, verify)
        eventually(lambda: [log for log in keepers.glob("*/record") if "\nworker " in log.read_text()])
        daemon.kill()
        daemon.wait()
        (folder,) = keepers.iterdir()
        keeper = keeper_of(folder)
        os.kill(keeper, signal.SIGKILL)  # else the verification goes on
        eventually(lambda keeper=keeper: not is_alive(keeper))  # type: ignore[misc]
        world.queue.recover(world.now())
        merge = world.merge(first)
        assert (merge["state"], merge["tries"]) == ("queued", tries)
        assert "the daemon died meanwhile" in why(merge)
    world.until(second, "landed", deadline_s=60)
    assert world.merge(first)["state"] == "queued"


@pytest.fixture
def broken(world: World) -> Iterator[tuple[World, str, str]]:
    """``release`` is checked out in a worktree whose ``.git`` points nowhere, as after a move; one request for each target."""
    git(world.root, "worktree", "add", "-q", "-b", "release", str(world.root.parent / "release"))
    world.branch("fix", {"fix.txt": "x\n"}, base="release")
    world.branch("feature", {"new.txt": "x\n"})
    (world.root.parent / "release" / ".git").write_text("gitdir: /moved/away/.git/worktrees/release\n")
    yield world, world.submit("fix", "release"), world.submit("feature")


def test_a_target_whose_checkout_is_broken_keeps_no_other_target_from_landing_and_says_why(
    broken: tuple[World, str, str],
) -> None:
    world, stuck, other = broken
    world.until(other, "landed")
    merge = world.merge(stuck)
    assert merge["state"] == "held"
    assert "release" in why(merge) and "lost its git directory" in why(merge)
    again = world.new_queue()
    again.recover(world.now())
    world.queue = again
    later = world.offer("later", {"later.txt": "x\n"})
    world.until(later, "landed")
    with pytest.raises(Conflict) as refused:
        requests.retry(world.db, world.repo(), stuck, now=world.now())
    assert "lost its git directory" in refused.value.cause
    admin = world.root / ".git/worktrees/release"
    (world.root.parent / "release" / ".git").write_text(f"gitdir: {admin}\n")
    world.skip(10)
    world.until(stuck, "landed")


def test_a_damaged_index_stops_only_the_target_that_is_checked_out_there(world: World) -> None:
    git(world.root, "branch", "release")
    world.branch("fix", {"fix.txt": "x\n"})
    index = world.root / ".git/index"
    whole = index.read_bytes()
    index.write_bytes(b"damaged")
    other, stuck = world.submit("fix", "release", approved=False), world.submit("fix", approved=False)
    world.until(other, "landed")
    world.spend(60)
    merge = world.merge(stuck)
    assert merge["state"] in ("queued", "held") and "index" in why(merge)
    index.write_bytes(whole)
    world.spend(300)
    assert world.merge(stuck)["state"] == "landed" and git(world.root, "status", "--porcelain") == ""


def test_a_landing_that_cannot_be_concluded_is_cancelled_while_its_target_has_provably_not_moved(
    broken: tuple[World, str, str],
) -> None:
    world, stuck, _other = broken
    world.until(stuck, "held")
    assert world.db.read(lambda conn: intents.is_landing(conn, stuck))
    before = world.tip("release")
    git(
        world.root,
        "update-ref",
        "refs/heads/release",
        git(world.root, "commit-tree", f"{before}^{{tree}}", "-p", before, "-m", "x"),
    )

    def cancel() -> str:
        row = requests.cancel(world.db, world.repo(), stuck, on_settled=lambda *_: None, now=world.now())
        return str(row["state"])

    with pytest.raises(Conflict, match="is landing") as refused:
        cancel()
    assert "release has moved since its landing was begun" in refused.value.cause
    git(world.root, "update-ref", "refs/heads/release", before)
    assert cancel() == "cancelled"
    assert world.db.read(intents.listing) == []


def test_a_landing_that_is_carried_out_just_now_is_not_cancelled(world: World) -> None:
    """Its target has not moved yet, and may the next moment."""
    (merge_id,) = several(world, 1)
    row, tip = world.merge(merge_id), world.tip()
    intent: Intent = {
        "target": "main", "old_sha": tip, "new_sha": row["head_sha"], "merge_ids": [merge_id],
        "remote": None, "remote_sha": None, "pushed_at": None,
    }  # fmt: skip
    world.db.write(lambda conn: intents.intend(conn, **intent, now=world.now()))
    with pytest.raises(Conflict, match="cannot be cancelled"):
        requests.cancel(world.db, world.repo(), merge_id, on_settled=lambda *_: None, now=world.now())


def test_one_ref_that_cannot_be_let_go_does_not_keep_the_others(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.landing = Landing(verify=["true"])
    ids = sorted(several(world, 3))
    for killed, left in (("", ids), (ids[0], ids[:1])):
        with monkeypatch.context() as patched:
            asked = f"{tmp_path}/asked.$$"
            refuse = f'cat > "{asked}"; if grep -aq "delete refs/corral/mq/{killed}" "{asked}"; then kill -9 $$; fi'
            body = f'case " $* " in *" --stdin "*) {refuse}; exec "$REAL" "$@" < "{asked}";; esac; exec "$REAL" "$@"'
            shim(tmp_path / "bin", patched, body)
            world.run()
            world.spend(60)
            assert world.held_refs() == [f"refs/corral/mq/{merge_id}" for merge_id in left]
    world.spend(60)
    assert world.held_refs() == []


@pytest.mark.req("D11")
@pytest.mark.parametrize("jump_s", [8 * 3600, -8 * 3600])
def test_a_clock_that_jumps_ends_no_verification_and_makes_nothing_wait_for_hours(
    world: World, tmp_path: Path, jump_s: int
) -> None:
    gate = tmp_path / "gate"
    world.landing = Landing(verify=[f"while [ ! -e {gate} ]; do sleep 0.05; done"], timeout_s=40)
    first, second = several(world, 2)
    world.until(first, "verifying")
    world.skip(jump_s)
    world.queue.step(world.now())
    assert world.merge(first)["state"] == "verifying", "the machine slept, and so did the verification"
    world.watch(10)
    assert world.merge(first)["state"] == "verifying"
    gate.touch()
    world.spend(120)  # files of the future look like those of a git at work, which is waited for for half a minute
    assert states(world, first, second) == ["landed", "landed"]
    assert [log.name for log in (world.project.logs_dir / "merges" / first).iterdir()] == ["1.log"], "started once"


@pytest.mark.req("D11")
def test_a_request_that_waits_after_a_fault_waits_no_longer_when_the_clock_is_set_back(
    world: World, tmp_path: Path
) -> None:
    world.landing = Landing(verify=["kill -9 $$"])
    (merge_id,) = several(world, 1)
    world.until(merge_id, "verifying")
    while world.merge(merge_id)["state"] != "queued":
        world.queue.step(world.now())
    world.skip(-8 * 3600)
    world.landing = Landing(verify=["true"])
    world.spend(LONGEST_WAIT_S + 60)  # and as long as a checkout may be without rest
    assert world.merge(merge_id)["state"] == "landed"


def test_the_first_verdict_ends_every_wait_that_the_faults_caused(world: World, tmp_path: Path) -> None:
    world.landing = Landing(verify=[f"test -e {tmp_path}/up || kill -9 $$"])
    first, second = several(world, 2)
    requests.cancel(world.db, world.repo(), second, on_settled=lambda *_: None, now=world.now())
    world.spend(100)
    paused, until = world.pause(), world.merge(first)["not_before_at"]
    assert paused is not None and until is not None and paused["look_at"] < until, (
        "by its own failures it would wait longer than its target does"
    )
    requests.retry(world.db, world.repo(), second, now=world.now())
    (tmp_path / "up").touch()
    world.spend(5)
    assert iso(world.now()) < until
    assert states(world, first, second) == ["landed", "landed"]
