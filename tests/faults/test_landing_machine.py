"""Landing on a machine that fails: a volume that is full for a while, commands that are killed, what nobody foresaw."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.config.paths import Project
from corral.config.sections.sharing import Landing
from corral.config.worktree_root import WorktreeRoot
from corral.git.land import landing
from tests.conftest import commit_all, git, worktrees_of
from tests.integration.landing_world import World, why
from tests.support.coordinated import Coordinated, eventually
from tests.support.programs import program

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]


@pytest.fixture
def volume(repo: Path) -> Iterator[Path]:
    """The folder of the verification worktree on a file system of 1 MB of its own."""
    project = Project(repo, repo / ".git", repo / ".corral", False)
    places = WorktreeRoot(project, "world", lambda: None, repo.parent / "home")
    place = worktrees_of(repo) / places.verification
    places.establish(place)
    place.mkdir()
    done = subprocess.run([program("mount"), "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True)
    if done.returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run([program("umount"), "--lazy", str(place)], check=True)


def fill(place: Path) -> None:
    """Take every byte that is free."""
    with (place / "filler").open("ab", buffering=0) as file:
        try:
            while file.write(b"\0" * 4096):
                pass
        except OSError:
            return


@pytest.mark.req("I5")
@pytest.mark.parametrize("when", ["from the beginning", "while one is verified"])
def test_a_volume_that_is_full_for_half_a_minute_fails_nobody(
    repo: Path, volume: Path, tmp_path: Path, when: str
) -> None:
    # What verifies writes as much as it lays out: without space it ends red, which the change is not to blame for.
    gate = tmp_path / "gate"
    world = World(repo, landing=Landing(verify=[f"while ! test -e {gate}; do sleep 0.02; done; echo x > built.o"]))
    for number in range(6):
        world.branch(f"f{number}", {f"f{number}.txt": f"{number}\n" * 20_000})
    ids = [world.submit(f"f{number}") for number in range(6)]
    if when == "while one is verified":
        world.until(ids[0], "verifying")
        eventually(lambda: list((world.project.logs_dir / "merges").glob("*/1.log")))
    fill(volume)
    gate.touch()
    world.spend(30, deadline_s=60)
    rows = [world.merge(merge_id) for merge_id in ids]
    assert {row["state"] for row in rows} <= {"queued", "verifying"}, rows
    assert world.settled == []
    paused = world.pause()
    assert paused is not None and "pace left" in paused["reason"] + str(rows)
    (volume / "filler").unlink()
    world.spend(60, deadline_s=90)
    assert world.settled == [(merge_id, "landed") for merge_id in ids], "all of them, without anybody's help"
    world.close()


def test_a_command_that_is_killed_every_time_is_shown_everywhere_and_the_target_goes_on_by_itself(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    up = tmp_path / "up"
    house = coordinate(verify=(f"test -e {up} || kill -9 $$",))
    commit_all(house.root, "corral")
    first = house.submit("one", "echo 1 > one.txt")
    behind = house.submit("two", "echo 2 > two.txt", "--wait-for", first)
    need = eventually(
        lambda: [need for need in house.json("status")["needs_you"] if need["kind"] == "paused_target"], deadline_s=60
    )[0]
    assert "Nothing lands on main" in need["what"] and "killed from outside" in need["what"]
    assert "main is paused" in house.run("merge", "list").stdout
    waited = house.run("wait", "--all", "--timeout", "1", check=False)
    assert waited.stdout.count("Nothing lands on main") == 1 and "killed from outside" in waited.stdout
    assert "killed from outside" in house.run("doctor", check=False).stdout
    assert house.json("task", "detail", behind)["status"] == "waiting", "a fault drags nobody down"
    up.touch()
    retried = house.run("merge", "retry", need["ids"]["merge_id"][:8], check=False)
    assert retried.returncode == 0 or "is verifying and cannot be tried again" in retried.stderr, "it went on by itself"
    assert house.run("wait", "--all", timeout_s=90).returncode == 0
    assert house.json("status")["needs_you"] == []


def test_an_error_while_landing_that_nobody_foresaw_stops_one_target(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repo, "branch", "release")
    world = World(repo)
    world.branch("fix", {"fix.txt": "x\n"}, base="release")
    world.branch("feature", {"new.txt": "x\n"})
    stuck, other = world.submit("fix", "release"), world.submit("feature")
    real = landing.land

    def refuse(git_: object, ref: str, *shas: str, **how: object) -> object:
        if ref == "refs/heads/release":
            raise PermissionError(13, "Permission denied")
        return real(git_, ref, *shas, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(landing, "land", refuse)
    world.until(other, "landed")
    merge = world.merge(stuck)
    assert merge["state"] == "held" and "Permission denied" in why(merge)
    world.close()
