"""Verification commands that misbehave, and what becomes of them."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from corral.config.sections.sharing import Landing
from corral.core.errors import CorralError
from corral.git.checkouts import worktrees
from corral.landing import requests
from corral.landing.verify import verification
from corral.runners.process import LogTail
from tests.conftest import NEEDS_RIGHTS_DROPPED, commit, git
from tests.integration.landing_world import World, in_a_process, why
from tests.integration.running import ON_LINUX
from tests.support.programs import requires


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    made = World(repo)
    made.branch("feature", {"new.txt": "x\n"})
    yield made
    made.close()


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 20
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text().strip()


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


@requires("setsid")
@pytest.mark.req("G27")
@pytest.mark.req("I5")
def test_a_hanging_one_is_ended_with_all_it_started_and_is_the_machines_fault_if_the_target_hangs_too(
    world: World, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    world.landing = Landing(verify=[f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 300' & sleep 300"], timeout_s=50)
    merge_id = world.submit("feature")
    for of_target in (False, True):
        world.until(merge_id, "verifying")
        escaped = int(wait_for(pid_file))
        pid_file.unlink()
        assert world.pause() is None
        world.watch(51)
        assert gone(escaped)
        assert world.merge(merge_id)["state"] == ("queued" if of_target else "verifying")
    assert "without any change fails like it" in why(world.merge(merge_id))
    paused = world.pause()
    assert paused is not None and "landing.timeout_s (50 s)" in paused["reason"]
    world.landing = Landing(verify=["true"])
    assert world.finish(merge_id)["state"] == "landed"


@requires("setsid")
@pytest.mark.req("G27")
@pytest.mark.parametrize("leaving", ["setsid", pytest.param("setsid env -i", marks=ON_LINUX)])
def test_a_daemon_left_behind_by_a_green_one_is_ended(world: World, tmp_path: Path, leaving: str) -> None:
    pid_file = tmp_path / "pid"
    leaves = f"{leaving} sh -c 'echo $$ > {pid_file}; exec sleep 300' >/dev/null 2>&1"
    world.landing = Landing(verify=[f"{leaves} & while ! test -s {pid_file}; do :; done"])
    assert world.land("feature")["state"] == "landed"
    assert gone(int(pid_file.read_text()))


@pytest.mark.req("G27")
@pytest.mark.req("I5")
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo y > src/a.py", "changed tracked files (src/a.py)"),
        ("rm README.md", "changed tracked files (README.md)"),
        ("git -c user.name=x -c user.email=x@x.test commit -q --allow-empty -m x", "moved the HEAD"),
        ("git checkout -q -B mine", "moved the HEAD"),
        ("no-such-command-anywhere", "a command was not found (exit code 127)"),
        ("./README.md", "it is not executable (exit code 126)"),
        ("kill -9 $$", "killed from outside"),
        ("kill -15 $$", "killed from outside"),
    ],
)
def test_what_ends_every_verification_without_a_verdict_pauses_the_target_and_fails_nobody(
    world: World, command: str, reason: str
) -> None:
    world.landing = Landing(verify=[command])
    before = world.tip()
    merge_id = world.submit("feature")
    world.spend(200)
    merge, paused = world.merge(merge_id), world.pause()
    assert merge["state"] == "queued"
    assert "says nothing about the change" in why(merge)
    assert reason in why(merge)
    assert paused is not None and reason in paused["reason"]
    assert world.tip() == before
    world.landing = Landing(verify=["test -f new.txt && grep -q hello README.md && grep -q 'a = 1' src/a.py"])
    assert world.finish(merge_id)["state"] == "landed", "the worktree is whole again for the next one"
    assert world.pause() is None
    assert world.receipt(merge_id)["status"] == "passed"


@pytest.mark.req("G27")
def test_a_worktree_that_was_made_to_point_at_the_users_checkout_is_not_followed(world: World) -> None:
    head = (world.root / ".git/HEAD").read_bytes()
    world.landing = Landing(verify=[f"test ! -e new.txt || echo 'gitdir: {world.root}/.git' > .git"], reruns=0)
    merge = world.land("feature")
    assert merge["state"] == "failed" and "The .git file of" in why(merge)
    world.branch("second", {"second.txt": "x\n"})
    assert world.land("second")["state"] == "landed"
    assert (world.root / ".git/HEAD").read_bytes() == head
    assert git(world.root, "status", "--porcelain") == ""


def test_a_runner_that_ran_nothing_is_not_green(world: World) -> None:
    commit(world.root, {"seed.txt": "x\n"})
    world.landing = Landing(
        verify=["test -e new.txt && echo 'no tests ran in 0.01s' || echo '1 passed in 0.01s'"], reruns=0
    )
    merge = world.land("feature")
    assert merge["state"] == "failed"
    assert "ran no tests" in why(merge)


def test_all_commands_run_in_order_until_one_fails(world: World) -> None:
    world.landing = Landing(verify=["echo one", "echo two; exit 3", "echo three"], reruns=0)
    merge_id = world.submit("feature")
    world.run()
    heading, _, output = world.log(merge_id).partition("\n")
    assert heading.startswith(f"# candidate {world.merge(merge_id)['candidate_sha']}, started at 20")
    assert output == "$ echo one\none\n$ echo two; exit 3\ntwo\n"
    assert world.receipt(merge_id)["exit_code"] == 3
    assert world.receipt(merge_id)["status"] == "failed"


@pytest.mark.parametrize("at", ["cd no-such-folder\necho on", "! test -e new.txt && exit 0\nfalse\ntrue"])
def test_a_command_of_several_lines_ends_with_the_first_that_fails(world: World, at: str) -> None:
    commit(world.root, {"seed.txt": "x\n"})
    world.landing = Landing(verify=[f"test -e new.txt || exit 0\n{at}"], reruns=0)
    merge = world.land("feature")
    assert merge["state"] == "failed", "the last line's exit code alone would have been 0"
    assert "The first of its lines that fails ends it; a line that may fail ends in `|| true`." in why(merge)


@pytest.mark.req("X10")
def test_the_commands_get_no_credential(world: World) -> None:
    world.environ |= {
        "ANTHROPIC_API_KEY": "sk-ant-canary-000111222",
        "GITHUB_TOKEN": "canary-token",
        "SSH_AUTH_SOCK": "/x",
    }
    world.prepare = lambda path: {"PORT": "20000", "PREPARED": path.name}
    world.landing = Landing(verify=["env"])
    merge_id = world.land("feature")["merge_id"]
    named = dict(line.split("=", 1) for line in world.log(merge_id).splitlines() if "=" in line)
    assert not {"ANTHROPIC_API_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "CORRAL_TASK_ID"} & named.keys()
    assert "canary" not in world.log(merge_id)
    assert (named["PREPARED"], named["PORT"], named["CORRAL_MERGE_ID"]) == ("1", "20000", merge_id)


def test_ignored_files_stay_from_run_to_run_and_others_do_not(world: World) -> None:
    commit(world.root, {".gitignore": "cache/\n"})
    world.landing = Landing(verify=["ls -a; mkdir -p cache left; touch cache/warm left/over"])
    world.branch("second", {"second.txt": "x\n"})
    for branch in ("feature", "second"):
        merge_id = world.land(branch)["merge_id"]
    text = world.log(merge_id).split()
    assert "cache" in text
    assert "left" not in text
    assert "second.txt" in text


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (CorralError("npm ci failed.", cause="No network."), "npm ci failed. No network."),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left"),
        (PermissionError(errno.EACCES, "Permission denied", "f"), "sudo rm -r "),
    ],
    ids=["a tool", "the system", "what is not ours"],
)
def test_a_worktree_that_cannot_be_prepared_blames_nobody(world: World, error: Exception, told: str) -> None:
    def refuse(_path: Path) -> dict[str, str]:
        raise error

    world.prepare = refuse
    world.landing = Landing(verify=["true"])
    merge_id = world.submit("feature")
    world.spend(200)
    merge = world.merge(merge_id)
    assert merge["state"] == "queued"
    assert "says nothing about the change" in why(merge)
    assert told in why(merge)
    world.prepare = lambda _path: {}
    assert world.finish(merge_id)["state"] == "landed"


@pytest.mark.req("G27")
@NEEDS_RIGHTS_DROPPED
@pytest.mark.parametrize("ignored", [True, False], ids=["ignored", "untracked"])
def test_read_only_folders_that_a_verification_leaves_are_removed(world: World, ignored: bool) -> None:
    """Module caches are like that; one below the other, as deep as it goes."""
    commit(world.root, {".gitignore": "cache/\n" if ignored else "", "sub/file": "x\n"})
    world.branch("second", {"second.txt": "x\n"})
    ids = [world.submit("feature"), world.submit("second")]
    leave = "mkdir -p cache/a/b && touch cache/a/b/c && ln -s ../sub cache/link && chmod 500 sub && chmod -R a-w cache"
    living = in_a_process(world.root, f"test ! -e cache && {leave} && chmod 0 cache/a/b", with_all_rights=False)
    assert living.wait(60) == 0
    ends = [(row["state"], row["tries"]) for row in map(world.merge, ids)]
    assert ends == [("landed", 0), ("landed", 0)], "at the first try"
    worktrees.make_writable(world.verification_worktree.path)


def test_stop_ends_the_run_and_requeues(world: World, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    world.landing = Landing(verify=[f"echo $$ > {pid_file}; sleep 300"])
    merge_id = world.submit("feature")
    world.until(merge_id, "verifying")
    pid = int(wait_for(pid_file))
    world.queue.stop(world.now())
    assert gone(pid)
    assert world.merge(merge_id)["state"] == "queued"
    assert world.queue.step(world.now()) is None
    assert world.merge(merge_id)["state"] == "queued"


@pytest.mark.req("G27")
def test_too_much_output_is_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "LOG_LIMIT", 100_000)
    world.landing = Landing(verify=["test ! -e new.txt || cat /dev/zero"])
    merge = world.land("feature")
    assert merge["state"] == "failed"
    assert "of output" in why(merge) and "That happened twice, while main without it passed" in why(merge)


@pytest.mark.parametrize("ends", [0, 1], ids=["green", "red"])
def test_a_log_that_is_removed_meanwhile_costs_nothing_but_the_log(world: World, tmp_path: Path, ends: int) -> None:
    started, gate = tmp_path / "started", tmp_path / "gate"
    commit(world.root, {"seed.txt": "x\n"})
    slow = f"echo x > {started}; while ! test -e {gate}; do sleep 0.02; done; echo it said so; test ! -f new.txt"
    world.landing = Landing(verify=[slow if ends else slow.rpartition(";")[0], "true"], reruns=0)
    merge_id = world.submit("feature")
    world.until(merge_id, "verifying")
    wait_for(started)
    shutil.rmtree(world.project.logs_dir / "merges")
    world.queue.step(world.now())
    gate.touch()
    merge = world.finish(merge_id)
    assert merge["state"] == ("failed" if ends else "landed")
    assert not ends or "it said so" in why(merge), "what was written to the removed log is read"
    assert world.receipt(merge_id)["status"] == ("failed" if ends else "passed")


def test_a_run_that_cannot_be_followed_is_no_verdict(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_tail: LogTail, _most: int) -> list[bytes]:
        raise OSError(errno.EIO, "Input/output error")

    world.landing = Landing(verify=["true"])
    monkeypatch.setattr(LogTail, "chunks", broken)
    merge_id = world.submit("feature")
    world.spend(60)
    merge = world.merge(merge_id)
    assert merge["state"] == "queued"
    assert "could not be followed: [Errno 5] Input/output error" in why(merge)
    assert "says nothing about the change" in why(merge)


def test_no_descriptor_stays_behind(world: World) -> None:
    world.landing = Landing(verify=["true", "test ! -f bad.txt"], reruns=1)
    world.land("feature")
    before = psutil.Process().num_fds()
    world.branch("bad", {"bad.txt": "x\n"})
    assert world.land("bad")["state"] == "failed"
    world.landing = Landing(verify=["sleep 60"])
    slow = world.offer("slow", {"slow.txt": "x\n"})
    world.until(slow, "verifying")
    requests.cancel(world.db, world.repo(), slow, on_settled=lambda *_: None, now=world.now())
    world.queue.step(world.now())
    assert psutil.Process().num_fds() == before


def test_the_worktree_is_made_again_when_it_is_damaged(world: World) -> None:
    world.landing = Landing(verify=["test -f new.txt || test -f other.txt"])
    world.land("feature")
    place = world.verification_worktree.path
    assert (place / "new.txt").exists()
    for number, damage in enumerate(("index", "HEAD")):
        admin = Path((place / ".git").read_text().removeprefix("gitdir: ").strip())
        (admin / damage).write_bytes(b"\0garbage")
        world.branch(f"next-{number}", {f"other{number}.txt": "x\n"})
        assert world.land(f"next-{number}")["state"] == "landed"
    os.unlink(place / ".git")  # noqa: PTH108
    world.branch("last", {"last.txt": "x\n"})
    assert world.land("last")["state"] == "landed"
