"""A batch through MCP, from both ends: a chief hands out work, coders complete it, the chief reads of each piece."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest

from corral.core.instants import parse
from tests.conftest import commit, git
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated

BATCH = "batch-7"


async def completions(agent: Agent, many: int) -> dict[str, dict[str, Any]]:
    """By task, the messages in an agent's inbox that say that one is complete, once there are so many."""
    until = time.monotonic() + 45
    while True:
        inbox = await agent.call("fetch_inbox", include_bodies=True, limit=100)
        messages = {
            match[1]: row
            for row in inbox
            if "Task complete" in row["subject"] and (match := re.match(r"Task ID: (\S+)\n", row["body_md"]))
        }
        if len(messages) >= many:
            return messages
        assert time.monotonic() < until, inbox
        await asyncio.sleep(0.1)


@pytest.mark.req("MESSAGE-1")
def test_the_chief_reads_task_commit_files_and_duration_of_each_piece_in_the_thread_of_its_batch(
    house: Coordinated,
) -> None:
    """Two pieces by agents that claim them, one by a worker: the three messages are alike."""
    root = house.root

    async def scene(chief: Agent, *coders: Agent) -> None:
        await chief.call("register_agent", program="p", model="m", name="Sisyphus")

        async def submit(title: str, **how: Any) -> str:
            work = {"task_type": "build", "description": title, "thread_id": BATCH, **how}
            return str((await chief.call("submit_work", **work))["task_id"])

        made: dict[str, tuple[str, list[str]]] = {}
        for number, coder in enumerate(coders):
            branch, tree = f"piece-{number}", root.parent / f"tree-{number}"
            task_id = await submit(f"Piece {number}")
            assert (await coder.call("get_work"))["task_id"] == task_id
            git(root, "worktree", "add", "-q", "-b", branch, str(tree))
            commit(tree, {f"{branch}/a.py": "a\n"})
            commit(tree, {f"{branch}/b.py": "b\n"})
            assert (await coder.call("request_merge", branch=branch))["success"]
            assert (await coder.call("complete_work", task_id=task_id, success=True))["success"]
            made[task_id] = (git(tree, "rev-parse", "HEAD"), [f"{branch}/a.py", f"{branch}/b.py"])
        worked = await submit("By a worker", command="echo x > new.txt")
        messages = await completions(chief, 3)
        house.run("wait", worked, "--timeout", "60")
        made[worked] = (
            git(root, "log", "--no-merges", "--format=%H", f"--grep=Corral-Task: {worked}", "main"),
            ["new.txt"],
        )
        assert set(messages) == set(made)
        for task_id, (head, files) in made.items():
            message, task = messages[task_id], house.json("task", "detail", task_id)
            assert (message["from"], message["importance"], message["thread_id"]) == ("Corral", "normal", BATCH)
            lasted = parse(task["completed_at"]) - parse(task["started_at"])
            facts, _, duration = message["body_md"].rpartition("\nDuration (s): ")
            listed = "".join(f"\n- {file}" for file in files)
            assert facts == f"Task ID: {task_id}\nCommit SHA: {head}\nfiles changed:{listed}"
            assert float(duration) == pytest.approx(lasted.total_seconds(), abs=0.002)
        for coder in coders:
            inbox = await coder.call("fetch_inbox", limit=100)
            assert not [row for row in inbox if "Task complete" in row["subject"]], "it is the chief's to know"

    play(house, scene, agents=3, profile="full", CORRAL_SESSION_ID="")
