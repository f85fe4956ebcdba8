"""Tasks that begin on what others have finished and not landed: where they begin, what they are told, how soon they land."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from corral.config.sections.sharing import Landing
from corral.coordination.services import Services
from corral.coordination.sessions.store import sessions
from corral.core.instants import iso
from corral.git.land.candidates import Style
from corral.landing import requests
from corral.store.rows.tasks import WorktreeRow
from corral.work.merges import diffs
from corral.work.merges.settling import enqueue, merge_settled
from corral.work.merges.store import merges, of_tasks
from corral.work.merges.store import runs as run_rows
from corral.work.tasks import delays
from corral.work.tasks.store import tasks as task_rows
from corral.work.worktrees import store as worktrees
from tests.conftest import commit, git
from tests.integration.landing_world import World
from tests.integration.supervision import House, houses


class StackedTasks:
    """A supervisor and a queue that share a database, with ``tasks.unblock_on: completed``."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.root = house.project.root
        self.world = World(self.root, landing=Landing(approve="never"))
        self.world.db.close()
        self.world.db, self.world.project_id, self.world.places = (
            house.db,
            house.worktree_context.project_id,
            house.worktree_context.places,
        )
        self.world.on_settled = merge_settled(lambda: house.settings)  # type: ignore[arg-type]
        self.world.queue = self.world.new_queue()

    def submit(self, name: str, *parents: str, command: str = "") -> str:
        text = command or f"echo {name} > {name}.txt"
        return self.house.submit(text, title=name, wait_for=list(parents), max_retries=0)

    def until(self, done: Callable[[], bool]) -> None:
        """Step both until something is so."""

        def step() -> bool:
            self.world.queue.step(self.world.now())
            return done()

        self.house.until(step)

    def finish(self, *task_ids: str) -> None:
        """Step the supervisor alone until these tasks are completed."""
        for task_id in task_ids:
            assert self.house.until_status(task_id, "completed", "failed", "dead")["status"] == "completed"

    def merge_id(self, task_id: str) -> str:
        merge = self.house.db.read(lambda conn: of_tasks.decisive(conn, task_id))
        assert merge is not None
        return merge["merge_id"]

    def state(self, task_id: str) -> str:
        return self.world.merge(self.merge_id(task_id))["state"]

    def worktree(self, task_id: str) -> WorktreeRow:
        row = self.house.db.read(lambda conn: task_rows.get(conn, task_id))
        assert row is not None and row["worktree_id"] is not None
        worktree = self.house.db.read(lambda conn: worktrees.get(conn, str(row["worktree_id"])))
        assert worktree is not None
        return worktree

    def change(self, branch: str, files: dict[str, str], *, onto: str | None = None) -> str:
        """Commit more on a branch, after a merge of another one, in a worktree that is gone again."""
        side = self.root.parent / "side"
        git(self.root, "worktree", "add", "-q", str(side), branch)
        if onto is not None:
            git(side, "merge", "-q", "-X", "ours", onto)
        sha = commit(side, files, "change")
        git(self.root, "worktree", "remove", str(side))
        return sha


@pytest.fixture
def stacked(repo: Path) -> Iterator[StackedTasks]:
    for opened in houses(repo):
        made = StackedTasks(opened(tasks={"unblock_on": "completed"}, supervisor={"max_agents": 6, "stop_grace_s": 1}))
        yield made
        made.world.queue.stop(made.world.now())


@pytest.mark.req("I10")
def test_a_chain_of_five_is_done_before_anything_has_landed_and_lands_by_one_run_more(
    stacked: StackedTasks, tmp_path: Path
) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    stacked.world.landing = Landing(
        approve="never", verify=[f"echo run >> {runs}; while [ ! -e {gate} ]; do sleep 0.02; done"]
    )
    stacked.world.slots = 2
    chain = [stacked.submit("t0")]
    for number in range(1, 5):
        before = f"test -e t{number - 1}.txt && echo x > t{number}.txt"
        chain.append(stacked.submit(f"t{number}", chain[-1], command=before))
    stacked.until(lambda: all(status == "completed" for status in stacked.house.statuses(*chain)))
    assert "landed" not in {stacked.state(task_id) for task_id in chain}, "the work of all took no verification"
    assert runs.exists(), "although the first is being verified"
    done = len(runs.read_text().split())
    stacked.until(lambda: any(len(run["members"]) == 5 for run in stacked.house.db.read(run_rows.running)))
    gate.touch()
    stacked.until(lambda: all(stacked.state(task_id) == "landed" for task_id in chain))
    assert len(runs.read_text().split()) - done <= 1, "one run after the work, instead of five"


@pytest.mark.req("I10")
def test_a_child_begins_on_a_merge_of_its_parents_and_of_what_has_landed(stacked: StackedTasks) -> None:
    stacked.world.landing = Landing(approve="paths", approve_paths=["a.txt", "b.txt"])
    a, b, c = (stacked.submit(name) for name in "abc")
    stacked.finish(a, b, c)
    stacked.until(lambda: [stacked.state(task_id) for task_id in (a, b, c)] == ["held", "held", "landed"])
    child = stacked.submit("child", a, b, c, command="ls > seen.txt")
    stacked.finish(child)
    head = stacked.world.merge(stacked.merge_id(child))["head_sha"]
    assert {"a.txt", "b.txt", "c.txt"} <= set(git(stacked.root, "show", f"{head}:seen.txt").split())
    heads = {task_id: stacked.world.merge(stacked.merge_id(task_id))["head_sha"] for task_id in (a, b)}
    assert stacked.worktree(child)["stacked_on"] == heads
    for task_id in (b, a):
        stacked.world.queue.step(stacked.world.now())
        assert stacked.state(child) == "queued", "it waits for both"
        merge_id = stacked.merge_id(task_id)
        stacked.world.db.write(merges.approve, merge_id, heads[task_id], stacked.world.now())
    stacked.until(lambda: stacked.state(child) == "landed")
    assert [stacked.state(a), stacked.state(b)] == ["landed", "landed"]


@pytest.mark.req("I10")
def test_where_the_work_of_two_parents_does_not_merge_the_child_waits_and_says_so(stacked: StackedTasks) -> None:
    a = stacked.submit("a", command="echo a > same.txt")
    stacked.finish(a)  # so that it is the first in the queue
    b = stacked.submit("b", command="echo b > same.txt")
    stacked.finish(b)
    child = stacked.submit("child", a, b, command="cat same.txt > seen.txt")
    stacked.house.until(
        lambda: stacked.house.status(child) == "waiting" and not stacked.house.supervisor.running_count()
    )
    detail = stacked.house.detail(child)
    assert (detail["attempts"], detail["error_code"]) == (0, None), "it is not counted"
    assert "same.txt (add/add): it begins once one of them has landed" in detail["attempt_history"][0]["error_message"]
    row = stacked.house.db.read(lambda conn: task_rows.get(conn, child))
    assert row is not None
    reason = stacked.house.db.read(lambda conn: delays.reason(conn, row, None, stacked.house.now()))
    assert reason is not None and "before one of 'a' and 'b' has landed or changed: their work does not merge" in reason
    stacked.until(lambda: stacked.state(a) == "landed" and stacked.state(b) == "conflict")
    stacked.until(lambda: stacked.house.status(child) == "failed")  # what it waits for came back
    stacked.change(stacked.world.merge(stacked.merge_id(b))["branch"], {"same.txt": "both\n"}, onto="main")
    settled = merge_settled(lambda: stacked.house.settings)  # type: ignore[arg-type]
    again = {"now": stacked.world.now(), "follow_branch": True, "on_reopened": settled}
    requests.retry(stacked.world.db, stacked.world.repo(), stacked.merge_id(b), **again)  # type: ignore[arg-type]
    stacked.until(lambda: stacked.house.status(child) == "completed" and stacked.state(child) == "landed")
    assert (stacked.root / "seen.txt").read_text() == "both\n"


@pytest.mark.req("I10")
def test_a_child_at_work_is_told_that_its_parent_changed_or_came_back_and_lands_on_what_it_is(
    stacked: StackedTasks, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    parent = stacked.submit("parent")
    stacked.finish(parent)
    wait = f"while [ ! -e {gate} ]; do sleep 0.02; done; echo child > child.txt"
    child = stacked.submit("child", parent, command=wait)
    stacked.house.until(lambda: stacked.house.detail(child)["started_at"] is not None)
    merge = stacked.world.merge(stacked.merge_id(parent))
    settled = merge_settled(lambda: stacked.house.settings)  # type: ignore[arg-type]
    requests.cancel(
        stacked.world.db, stacked.world.repo(), merge["merge_id"], on_settled=settled, now=stacked.world.now()
    )
    sha = stacked.change(merge["branch"], {"parent.txt": "changed\n"})
    enqueue(stacked.world.db, stacked.world.repo(), branch=merge["branch"], target="main", now=stacked.world.now())
    session_id = str(stacked.house.detail(child)["session_id"])
    notices = stacked.house.db.write(lambda conn: sessions.take_notices(conn, session_id, iso(stacked.house.now())))
    assert len(notices) == 2 and "ended as cancelled" in notices[0] and f"git merge {sha[:12]}" in notices[1]
    history = stacked.house.detail(child)["history"]
    assert [event["data"]["reason"] for event in history if event["kind"] == "task.base_changed"] == notices
    gate.touch()
    stacked.until(lambda: stacked.house.status(child) == "completed" and stacked.state(child) == "landed")
    assert (stacked.root / "parent.txt").read_text() == "changed\n" and (stacked.root / "child.txt").exists()


@pytest.mark.req("I10")
@pytest.mark.parametrize("style", ["merge", "squash", "rebase"])
def test_what_a_person_takes_off_the_target_does_not_come_back_with_a_task_that_was_begun_on_it(
    stacked: StackedTasks, style: Style
) -> None:
    stacked.world.landing = Landing(approve="never", style=style)
    taken = commit(stacked.root, {"note.txt": "old\n", "key.env": "secret\n"}, "Add the note")
    task_id = stacked.submit("work")
    stacked.finish(task_id)
    git(stacked.root, "rm", "-q", "key.env")
    (stacked.root / "note.txt").write_text("new\n")
    git(stacked.root, "commit", "-q", "-a", "--amend", "-m", "Add the note")
    shown = diffs.of_merge(
        cast("Services", SimpleNamespace(db=stacked.house.db, git=stacked.world.repo())), stacked.merge_id(task_id)
    )
    assert [file["path"] for file in shown["files"]] == ["work.txt"], "its own alone"
    stacked.until(lambda: stacked.state(task_id) != "queued")
    assert stacked.state(task_id) == "landed", stacked.world.merge(stacked.merge_id(task_id))["reason"]
    assert (stacked.root / "note.txt").read_text() == "new\n" and (stacked.root / "work.txt").exists()
    assert not (stacked.root / "key.env").exists()
    assert taken not in git(stacked.root, "rev-list", "HEAD").split(), "nor into its history"


def test_a_branch_that_took_a_rewritten_target_over_lands_with_all_that_its_author_made_of_it(
    stacked: StackedTasks,
) -> None:
    commit(stacked.root, {"note.txt": "old\n"}, "Add the note")
    gate = stacked.root.parent / "gate"
    over = f"while [ ! -e {gate} ]; do sleep 0.02; done; git merge -q -X ours main; echo both > note.txt; git commit -qam over"
    task_id = stacked.submit("work", command=over)
    stacked.until(lambda: "running" in stacked.house.statuses(task_id))
    (stacked.root / "note.txt").write_text("new\n")
    git(stacked.root, "commit", "-q", "-a", "--amend", "-m", "Add the note")
    gate.touch()
    stacked.until(lambda: stacked.house.statuses(task_id) == ["completed"] and stacked.state(task_id) != "queued")
    assert stacked.state(task_id) == "landed" and (stacked.root / "note.txt").read_text() == "both\n"
