"""A folder of logs that cannot be written stops no work and no start, and the message names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinated import Coordinated, eventually
from tests.support.files import put


def spoil(folder: Path) -> None:
    """Put a file in a folder's place."""
    if folder.is_dir():
        folder.rename(folder.with_name(f"{folder.name}-before"))
    put(folder, "in the way")


def needs(house: Coordinated) -> list[dict[str, Any]]:
    return [need for need in house.json("status")["needs_you"] if need["kind"] == "unwritable_logs"]


@pytest.mark.req("NFR-REL-002")
@pytest.mark.parametrize(
    ("name", "is_running"),
    [("logs", True), ("logs/tasks", False), ("logs/merges", True), ("logs/daemon-start.log", False)],
)
def test_work_and_starts_go_on_without_a_folder_of_logs(
    coordinate: Callable[..., Coordinated], name: str, is_running: bool
) -> None:
    house = coordinate()
    folder = house.root / ".corral" / name
    if is_running:
        house.run("status")
    else:
        house.run("daemon", "stop")
    if name.endswith(".log"):
        folder.unlink(missing_ok=True)
        folder.mkdir(parents=True)
    else:
        spoil(folder)
    task = house.carry_out("work", "echo said; echo 1 > done")
    assert (house.root / "done").exists() and "said" in house.run("task", "logs", task).stdout
    if name.endswith(".log"):
        return
    (need,) = needs(house)
    meanwhile = house.root / ".corral" / "run" / "logs"
    assert need["what"] == f"{folder} cannot be written: logs go to {meanwhile} meanwhile."
    folder.unlink()
    assert eventually(lambda: not needs(house))
    later = house.carry_out("later", "echo later")
    assert (house.root / ".corral/logs/tasks" / later / "1.log").is_file()


@pytest.mark.req("NFR-REL-002")
def test_a_start_that_cannot_go_on_blames_the_path_that_is_in_its_way(house: Coordinated) -> None:
    house.run("daemon", "stop")
    spoil(house.root / ".corral" / "run")
    refused = house.run("status", "--json", check=False)
    run = str(house.root / ".corral" / "run")
    error = json.loads(refused.stderr)["error"]
    assert f"{run} cannot be written" in error["cause"] and f"Make {run} a folder" in error["remedy"]
