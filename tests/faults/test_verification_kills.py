"""The daemon is killed while it verifies: what is provably its own goes on, and everything else is ended and begins again."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.config.paths import find_project
from corral.config.sections.sharing import Landing
from corral.store.rows.merges import VerificationRunRow
from corral.work.merges.store import receipts, runs
from tests.conftest import commit, git
from tests.integration.landing_world import World, in_a_process, why
from tests.integration.running import is_alive, keeper_of, wait
from tests.support.coordinated import Coordinated, eventually

pytestmark = [pytest.mark.faults, pytest.mark.req("I7"), pytest.mark.timeout(300)]

GATED = 'echo "$CORRAL_MERGE_ID" >> {ran}; echo "3 passed in 0.01s"; until test -e {gate}; do sleep 0.02; done; echo the end'


class Scene:
    """A repository with a queue whose daemon is killed."""

    def __init__(self, repo: Path, aside: Path) -> None:
        self.repo = repo
        self.ran, self.gate = aside / "ran", aside / "gate"
        self.landing: dict[str, Any] = {"verify": [GATED.format(ran=self.ran, gate=self.gate)], "reruns": 0}
        self.world = World(repo, landing=Landing())

    def submit(self, target: str = "main") -> str:
        """Work for a target, made from it."""
        self.world.branch(f"for-{target}", {f"new-{target}.txt": "x\n"}, base=target)
        return self.world.submit(f"for-{target}", target)

    def kill_daemon(self, until: Callable[[], object] | None, *, slots: int = 1, crash_at: str = "") -> None:
        """Let a daemon live until something is so, or until it reaches a point, and kill it."""
        self.world.close()
        daemon = in_a_process(
            self.repo, "true", LANDING_SETTINGS=json.dumps(self.landing), LANDING_SLOTS=str(slots), CORRAL_CRASH_AT=crash_at
        )  # fmt: skip
        if until is not None:
            wait(until)
            daemon.kill()
        assert daemon.wait(60) == -9
        self.world = World(self.repo, landing=Landing.model_validate(self.landing))
        self.world.slots = slots
        self.world.queue = self.world.new_queue()

    def runs(self) -> list[VerificationRunRow]:
        """What runs, by its rows."""
        return self.world.db.read(runs.running)

    def folder(self, run: VerificationRunRow) -> Path:
        return self.world.project.verifications_dir / str(run["run_id"])

    def record(self, run: VerificationRunRow) -> str:
        return (self.folder(run) / "record").read_text()

    def command(self, run: VerificationRunRow) -> int:
        """The pid of its command."""
        return next(int(line.split()[1]) for line in self.record(run).splitlines() if line.startswith("worker "))

    def ran_for(self, merge_id: str) -> int:
        """How often a verification has begun for a request."""
        return self.ran.read_text().split().count(merge_id) if self.ran.exists() else 0

    def recover(self) -> None:
        self.world.queue.recover(self.world.now())


@pytest.fixture
def scene(repo: Path, tmp_path: Path) -> Iterator[Scene]:
    (tmp_path / "aside").mkdir()
    made = Scene(repo, tmp_path / "aside")
    yield made
    made.gate.touch()
    made.recover()
    made.world.close()


@pytest.mark.parametrize("ends", ["with the next daemon", "while none lives", "and its keeper is killed"])
def test_a_command_outlives_the_daemon_and_those_behind_it_run_with_the_next_one(scene: Scene, ends: str) -> None:
    before, behind = (
        f"echo {name} >> {scene.ran}; echo '{tests} passed in 0.01s'" for name, tests in (("1st", 2), ("3rd", 4))
    )
    scene.landing["verify"] = [before, *scene.landing["verify"], behind]
    merge_id = scene.submit()
    scene.kill_daemon(lambda: scene.ran_for(merge_id))
    (run,) = scene.runs()
    keeper = keeper_of(scene.folder(run))
    if ends != "with the next daemon":
        scene.gate.touch()
        wait(lambda: "\nexit 0 " in scene.record(run))
    if ends == "and its keeper is killed":
        os.kill(keeper, signal.SIGKILL)
        wait(lambda: not is_alive(keeper))
    scene.recover()
    scene.world.queue.step(scene.world.now())
    assert [each["run_id"] for each in scene.runs()] == [run["run_id"]] and scene.folder(run).exists()
    scene.gate.touch()
    scene.world.run()
    merge, receipt = scene.world.merge(merge_id), scene.world.receipt(merge_id)
    assert (merge["state"], merge["tries"]) == ("landed", 0)
    assert scene.ran.read_text().split() == ["1st", merge_id, "3rd"], "each command once"
    assert (receipt["status"], receipt["tests"], receipt["tree"]) == ("passed", 9, run["tree"])
    log = scene.world.receipt_log(merge_id).read_text()
    assert "the end\n$ " in log and log.count("\n3 passed") == log.count("\n4 passed") == 1
    wait(lambda: not is_alive(keeper))
    assert not list(scene.world.project.verifications_dir.iterdir())


WHY = {
    "the keeper is killed": "had no command that a keeper can prove",
    "the command is killed": "was killed while no daemon followed it",
    "both are killed": "had no command that a keeper can prove",
    "a file is changed and changed back": "has files in its worktree that were written since: README.md.",
    "another commit": "has another commit in its worktree now",
    "its record is of another run": "is not the one of its record",
}
"""What is done to a run while no daemon lives, and what is said of it."""
HARMS = ("nothing", *WHY, "a file is changed after the adoption")


@pytest.mark.req("I1")
def test_what_is_not_provably_its_own_is_ended_and_begins_again_and_is_blamed_on_nobody(scene: Scene) -> None:
    """Side by side, each in a slot and for a target of its own."""
    targets = {f"target-{number}": harm for number, harm in enumerate(HARMS)}
    for target in targets:
        git(scene.repo, "branch", target)
    merge_ids = {harm: scene.submit(target) for target, harm in targets.items()}
    scene.kill_daemon(lambda: all(map(scene.ran_for, merge_ids.values())), slots=len(HARMS))
    of = {targets[run["target"]]: run for run in scene.runs()}
    assert len(of) == len(HARMS)
    place = {harm: Path(json.loads(scene.record(run).splitlines()[0])["worktree"]) for harm, run in of.items()}
    commands = {harm: scene.command(run) for harm, run in of.items()}
    for harm in ("the keeper is killed", "both are killed"):
        os.kill(keeper_of(scene.folder(of[harm])), signal.SIGKILL)
    for harm in ("the command is killed", "both are killed"):
        os.killpg(commands[harm], signal.SIGKILL)
    wait(lambda: "\nexit -9 " in scene.record(of["the command is killed"]))
    keepers = [keeper_of(scene.folder(of[harm])) for harm in ("the keeper is killed", "both are killed")]
    wait(lambda: not any(map(is_alive, keepers)))
    _change_and_change_back(place["a file is changed and changed back"] / "README.md")
    git(place["another commit"], "checkout", "-q", "--detach", "main")
    strange = of["its record is of another run"]
    record = scene.record(strange)
    (scene.folder(strange) / "record").write_text(record.replace(strange["tree"], "0" * 40))
    scene.recover()
    goes_on = {"nothing", "a file is changed after the adoption"}
    assert {targets[run["target"]] for run in scene.runs()} == goes_on
    for harm, pid in commands.items():
        assert is_alive(pid) == (harm in goes_on), harm
    for harm, merge_id in merge_ids.items():
        row = scene.world.merge(merge_id)
        assert row["state"] == ("verifying" if harm in goes_on else "queued"), harm
        assert harm in goes_on or WHY[harm] in why(row)
    (place["a file is changed after the adoption"] / "README.md").write_text("another tree\n")
    scene.gate.touch()
    scene.world.run()
    for harm, merge_id in merge_ids.items():
        receipt = scene.world.receipt(merge_id)
        assert scene.world.merge(merge_id)["state"] == "landed", scene.world.merge(merge_id)
        # A void verdict has the target verified without the request, and then the request again.
        assert scene.ran_for(merge_id) == {"nothing": 1, HARMS[-1]: 3}.get(harm, 2), harm
        assert (receipt["status"], receipt["tree"]) == ("passed", of[harm]["tree"])
    void = scene.world.db.read(lambda conn: receipts.of_merge(conn, merge_ids["a file is changed after the adoption"]))
    assert [row["status"] for row in void][:1] == ["error"] and "changed tracked files (README.md)" in str(
        void[0]["reason"]
    )
    assert not list(scene.world.project.verifications_dir.iterdir())


def _change_and_change_back(file: Path) -> None:
    """As somebody does who looks at something else for a moment: the content, the size and the time are as before."""
    content, times = file.read_bytes(), file.stat()
    file.write_bytes(bytes(reversed(content)))
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize(
    "point", ["verification.command_intended", "verification.command_started", "queue.verdict_stored"]
)
def test_killed_between_the_intent_the_fork_and_the_record_of_the_verdict(scene: Scene, point: str) -> None:
    scene.gate.touch()
    merge_id = scene.submit()
    scene.kill_daemon(None, crash_at=point)
    scene.recover()
    scene.world.run()
    assert scene.world.merge(merge_id)["state"] == "landed"
    assert scene.ran_for(merge_id) == 1, "begun again only where it had not begun"
    assert not list(scene.world.project.verifications_dir.iterdir())


def test_other_commands_than_those_in_force_do_not_go_on(scene: Scene) -> None:
    merge_id = scene.submit()
    scene.kill_daemon(lambda: scene.ran_for(merge_id))
    (run,) = scene.runs()
    command = scene.command(run)
    scene.world.landing = Landing(verify=["echo 5 passed in 0.01s"], reruns=0)
    scene.recover()
    assert scene.runs() == [] and not is_alive(command)
    scene.world.run()
    assert scene.world.receipt(merge_id)["tests"] == 5 and scene.ran_for(merge_id) == 1


def test_what_the_queue_does_not_want_any_more_is_ended_at_its_first_look(scene: Scene) -> None:
    """A person has moved the target meanwhile: no slot is kept by a run that nothing can come of."""
    merge_id = scene.submit()
    scene.kill_daemon(lambda: scene.ran_for(merge_id))
    (run,) = scene.runs()
    command = scene.command(run)
    commit(scene.repo, {"mine.txt": "x\n"})
    scene.recover()
    assert is_alive(command)
    scene.world.queue.step(scene.world.now())
    scene.world.queue.step(scene.world.now())
    assert not is_alive(command)
    scene.gate.touch()
    scene.world.run()
    assert scene.world.merge(merge_id)["state"] == "landed" and scene.ran_for(merge_id) == 2
    assert scene.world.receipt(merge_id)["tree"] == git(scene.repo, "rev-parse", "main^{tree}")


def test_the_time_limit_holds_while_no_daemon_lives(scene: Scene) -> None:
    scene.landing["timeout_s"] = 1.5
    merge_id = scene.submit()
    scene.kill_daemon(lambda: scene.ran_for(merge_id))
    (run,) = scene.runs()
    command = scene.command(run)
    wait(lambda: "\nexit " in scene.record(run))
    assert " timeout " in scene.record(run) and not is_alive(command)
    scene.recover()
    scene.world.queue.step(scene.world.now())
    error = scene.world.receipt(merge_id)
    assert error["status"] == "error" and "landing.timeout_s (1.5 s)" in why(error)
    scene.gate.touch()


def test_a_red_try_is_remembered_by_the_next_daemon(scene: Scene) -> None:
    """Red, then killed, then green: that is a flake, and not a green run of which nobody knows more."""
    first = f"test $(wc -l < {scene.ran}) -gt 1 || exit 1"
    (gated,) = scene.landing["verify"]
    scene.landing |= {"verify": [gated.replace("until", f"{first}; until")], "reruns": 1}
    merge_id = scene.submit()
    scene.kill_daemon(lambda: scene.ran_for(merge_id) == 2)
    scene.recover()
    scene.gate.touch()
    scene.world.run()
    assert scene.world.merge(merge_id)["state"] == "landed" and scene.ran_for(merge_id) == 2
    assert "Flaky: red 1 times" in why(scene.world.receipt(merge_id))
    assert "merge.flaky" in scene.world.events()


def test_a_restart_leaves_what_is_verified_alone_and_a_stop_even_without_a_daemon_or_a_move_ends_it(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    ran, gate = tmp_path / "ran", tmp_path / "gate"
    house = coordinate(verify=(f"echo $$ >> {ran}; until test -e {gate}; do sleep 0.05; done",))
    keepers = find_project(house.root).verifications_dir

    def pids() -> list[int]:
        return [int(word) for word in ran.read_text().split()] if ran.exists() else []

    task = house.submit("works", "echo x > out.txt")
    eventually(pids)
    before = house.daemon_pid()
    house.run("daemon", "restart")
    assert house.daemon_pid() not in (None, before)
    house.kill_daemon()
    house.ask("GET", "/status")
    assert len(pids()) == 1 and is_alive(pids()[0])
    house.kill_daemon()
    keeper = keeper_of(next(keepers.iterdir()))
    house.run("daemon", "stop")
    assert not is_alive(pids()[0]) and house.daemon_pid() is None
    wait(lambda: not is_alive(keeper))
    house.run("daemon", "start")
    eventually(lambda: len(pids()) == 2)
    gate.touch()
    eventually(lambda: house.json("task", "detail", task)["merge"]["state"] == "landed")
    assert len(pids()) == 2
    eventually(lambda: not list(keepers.iterdir()))
    gate.unlink()
    house.submit("works too", "echo y > other.txt")
    eventually(lambda: len(pids()) == 3)
    keeper = keeper_of(next(keepers.iterdir()))
    house.root.rename(tmp_path / "moved")
    eventually(lambda: not is_alive(pids()[2]) and not is_alive(keeper))


@pytest.mark.req("I5")
def test_a_keeper_that_is_killed_under_a_living_daemon_takes_its_command_along_and_is_nobodys_fault(
    scene: Scene,
) -> None:
    scene.world.landing = Landing.model_validate(scene.landing)
    merge_id = scene.submit()
    scene.world.until(merge_id, "verifying")
    wait(lambda: scene.ran_for(merge_id))
    (run,) = scene.runs()
    command = scene.command(run)
    os.kill(keeper_of(scene.folder(run)), signal.SIGKILL)
    merge = scene.world.until(merge_id, "queued")
    assert (
        not is_alive(command)
        and "was killed from outside" in why(merge)
        and "says nothing about the change" in why(merge)
    )
    scene.gate.touch()
    scene.world.run()
    assert scene.world.merge(merge_id)["state"] == "landed" and scene.ran_for(merge_id) == 2
