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


class Site:
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
def site(repo: Path) -> Iterator[Site]:
    for opened in houses(repo):
        made = Site(opened(tasks={"unblock_on": "completed"}, supervisor={"max_agents": 6, "stop_grace_s": 1}))
        yield made
        made.world.queue.stop(made.world.now())


@pytest.mark.req("I10")
def test_a_chain_of_five_is_done_before_anything_has_landed_and_lands_by_one_run_more(
    site: Site, tmp_path: Path
) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    site.world.landing = Landing(
        approve="never", verify=[f"echo run >> {runs}; while [ ! -e {gate} ]; do sleep 0.02; done"]
    )
    site.world.slots = 2
    chain = [site.submit("t0")]
    for number in range(1, 5):
        before = f"test -e t{number - 1}.txt && echo x > t{number}.txt"
        chain.append(site.submit(f"t{number}", chain[-1], command=before))
    site.until(lambda: all(status == "completed" for status in site.house.statuses(*chain)))
    assert "landed" not in {site.state(task_id) for task_id in chain}, "the work of all took no verification"
    assert runs.exists(), "although the first is being verified"
    done = len(runs.read_text().split())
    site.until(lambda: any(len(run["members"]) == 5 for run in site.house.db.read(run_rows.running)))
    gate.touch()
    site.until(lambda: all(site.state(task_id) == "landed" for task_id in chain))
    assert len(runs.read_text().split()) - done <= 1, "one run after the work, instead of five"


@pytest.mark.req("I10")
def test_a_child_begins_on_a_merge_of_its_parents_and_of_what_has_landed(site: Site) -> None:
    site.world.landing = Landing(approve="paths", approve_paths=["a.txt", "b.txt"])
    a, b, c = (site.submit(name) for name in "abc")
    site.finish(a, b, c)
    site.until(lambda: [site.state(task_id) for task_id in (a, b, c)] == ["held", "held", "landed"])
    child = site.submit("child", a, b, c, command="ls > seen.txt")
    site.finish(child)
    head = site.world.merge(site.merge_id(child))["head_sha"]
    assert {"a.txt", "b.txt", "c.txt"} <= set(git(site.root, "show", f"{head}:seen.txt").split())
    heads = {task_id: site.world.merge(site.merge_id(task_id))["head_sha"] for task_id in (a, b)}
    assert site.worktree(child)["stacked_on"] == heads
    for task_id in (b, a):
        site.world.queue.step(site.world.now())
        assert site.state(child) == "queued", "it waits for both"
        merge_id = site.merge_id(task_id)
        site.world.db.write(lambda conn, m=merge_id, t=task_id: merges.approve(conn, m, heads[t], site.world.now()))  # type: ignore[misc]
    site.until(lambda: site.state(child) == "landed")
    assert [site.state(a), site.state(b)] == ["landed", "landed"]


@pytest.mark.req("I10")
def test_where_the_work_of_two_parents_does_not_merge_the_child_waits_and_says_so(site: Site) -> None:
    a = site.submit("a", command="echo a > same.txt")
    site.finish(a)  # so that it is the first in the queue
    b = site.submit("b", command="echo b > same.txt")
    site.finish(b)
    child = site.submit("child", a, b, command="cat same.txt > seen.txt")
    site.house.until(lambda: site.house.status(child) == "waiting" and not site.house.supervisor.running_count())
    detail = site.house.detail(child)
    assert (detail["attempts"], detail["error_code"]) == (0, None), "it is not counted"
    assert "same.txt (add/add): it begins once one of them has landed" in detail["attempt_history"][0]["error_message"]
    row = site.house.db.read(lambda conn: task_rows.get(conn, child))
    assert row is not None
    reason = site.house.db.read(lambda conn: delays.reason(conn, row, None, site.house.now()))
    assert reason is not None and "before one of 'a' and 'b' has landed or changed: their work does not merge" in reason
    site.until(lambda: site.state(a) == "landed" and site.state(b) == "conflict")
    site.until(lambda: site.house.status(child) == "failed")  # what it waits for came back
    site.change(site.world.merge(site.merge_id(b))["branch"], {"same.txt": "both\n"}, onto="main")
    settled = merge_settled(lambda: site.house.settings)  # type: ignore[arg-type]
    again = {"now": site.world.now(), "follow_branch": True, "on_reopened": settled}
    requests.retry(site.world.db, site.world.repo(), site.merge_id(b), **again)  # type: ignore[arg-type]
    site.until(lambda: site.house.status(child) == "completed" and site.state(child) == "landed")
    assert (site.root / "seen.txt").read_text() == "both\n"


@pytest.mark.req("I10")
def test_a_child_at_work_is_told_that_its_parent_changed_or_came_back_and_lands_on_what_it_is(
    site: Site, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    parent = site.submit("parent")
    site.finish(parent)
    wait = f"while [ ! -e {gate} ]; do sleep 0.02; done; echo child > child.txt"
    child = site.submit("child", parent, command=wait)
    site.house.until(lambda: site.house.detail(child)["started_at"] is not None)
    merge = site.world.merge(site.merge_id(parent))
    settled = merge_settled(lambda: site.house.settings)  # type: ignore[arg-type]
    requests.cancel(site.world.db, site.world.repo(), merge["merge_id"], on_settled=settled, now=site.world.now())
    sha = site.change(merge["branch"], {"parent.txt": "changed\n"})
    enqueue(site.world.db, site.world.repo(), branch=merge["branch"], target="main", now=site.world.now())
    session_id = str(site.house.detail(child)["session_id"])
    notices = site.house.db.write(lambda conn: sessions.take_notices(conn, session_id, iso(site.house.now())))
    assert len(notices) == 2 and "ended as cancelled" in notices[0] and f"git merge {sha[:12]}" in notices[1]
    history = site.house.detail(child)["history"]
    assert [event["data"]["reason"] for event in history if event["kind"] == "task.base_changed"] == notices
    gate.touch()
    site.until(lambda: site.house.status(child) == "completed" and site.state(child) == "landed")
    assert (site.root / "parent.txt").read_text() == "changed\n" and (site.root / "child.txt").exists()


@pytest.mark.req("I10")
@pytest.mark.parametrize("style", ["merge", "squash", "rebase"])
def test_what_a_person_takes_off_the_target_does_not_come_back_with_a_task_that_was_begun_on_it(
    site: Site, style: Style
) -> None:
    site.world.landing = Landing(approve="never", style=style)
    taken = commit(site.root, {"note.txt": "old\n", "key.env": "secret\n"}, "Add the note")
    task_id = site.submit("work")
    site.finish(task_id)
    git(site.root, "rm", "-q", "key.env")
    (site.root / "note.txt").write_text("new\n")
    git(site.root, "commit", "-q", "-a", "--amend", "-m", "Add the note")
    shown = diffs.of_merge(
        cast("Services", SimpleNamespace(db=site.house.db, git=site.world.repo())), site.merge_id(task_id)
    )
    assert [file["path"] for file in shown["files"]] == ["work.txt"], "its own alone"
    site.until(lambda: site.state(task_id) != "queued")
    assert site.state(task_id) == "landed", site.world.merge(site.merge_id(task_id))["reason"]
    assert (site.root / "note.txt").read_text() == "new\n" and (site.root / "work.txt").exists()
    assert not (site.root / "key.env").exists()
    assert taken not in git(site.root, "rev-list", "HEAD").split(), "nor into its history"


def test_a_branch_that_took_a_rewritten_target_over_lands_with_all_that_its_author_made_of_it(site: Site) -> None:
    commit(site.root, {"note.txt": "old\n"}, "Add the note")
    gate = site.root.parent / "gate"
    over = f"while [ ! -e {gate} ]; do sleep 0.02; done; git merge -q -X ours main; echo both > note.txt; git commit -qam over"
    task_id = site.submit("work", command=over)
    site.until(lambda: "running" in site.house.statuses(task_id))
    (site.root / "note.txt").write_text("new\n")
    git(site.root, "commit", "-q", "-a", "--amend", "-m", "Add the note")
    gate.touch()
    site.until(lambda: site.house.statuses(task_id) == ["completed"] and site.state(task_id) != "queued")
    assert site.state(task_id) == "landed" and (site.root / "note.txt").read_text() == "both\n"
