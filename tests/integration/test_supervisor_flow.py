"""One task from the queue to a merge request, with real git, real processes and a real database."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from corral.git.checkouts import salvage
from corral.observe.view.needs_you import unobserved_workers
from corral.runners.protocol import Observation
from corral.runners.worker import Worker
from corral.store.rows.merges import MergeRow
from corral.work.merges.store import merges
from corral.work.worktrees import store as worktree_rows
from tests.conftest import git, worktrees_in, worktrees_of
from tests.integration.supervision import House, houses, utc_now

Open = Callable[..., House]


@pytest.fixture
def house(repo: Path) -> Iterator[Open]:
    yield from houses(repo)


def requests(house: House) -> list[MergeRow]:
    return house.db.read(merges.listing)


def test_left_overs_are_committed_for_the_task_and_queued_with_their_head_pinned(house: Open, repo: Path) -> None:
    base = git(repo, "rev-parse", "HEAD")
    home = house()
    task_id = home.submit("echo new > new.txt; echo more >> src/a.py", title="Add a file", priority=7)
    detail = home.until_status(task_id, "completed")
    home.settle()
    (merge,) = requests(home)
    assert (merge["task_id"], merge["branch"], merge["target"]) == (task_id, detail["branch"], "main")
    assert (merge["priority"], merge["title"], merge["base_sha"]) == (7, "Add a file", base)
    assert merge["head_sha"] == git(repo, "rev-parse", f"refs/heads/{detail['branch']}")
    assert git(repo, "show", "-s", "--format=%s%n%(trailers:key=Corral-Task,valueonly)", merge["head_sha"]).split() == [
        *["Add", "a", "file"],
        task_id,
    ]
    assert git(repo, "diff", "--name-only", base, merge["head_sha"]).split() == ["new.txt", "src/a.py"]
    assert detail["merge"]["state"] == "queued" and detail["merge"]["merge_id"] == merge["merge_id"]
    assert home.landing_nudges > 0
    assert git(repo, "status", "--porcelain") == "" and git(repo, "rev-parse", "HEAD") == base


def test_the_worktree_goes_once_the_work_is_on_its_branch(house: Open, repo: Path) -> None:
    home = house()
    task_id = home.submit("echo new > new.txt")
    home.until_status(task_id, "completed")
    home.settle()
    assert home.worktrees.listing() == []
    assert not any(worktrees_in(repo))
    assert len(git(repo, "worktree", "list").splitlines()) == 1


def test_nothing_changed_is_a_fact_not_an_error(house: Open, repo: Path) -> None:
    home = house()
    task_id = home.submit("true")
    detail = home.until_status(task_id, "completed")
    assert detail["merge"] is None and detail["error_code"] is None
    assert detail["result"]["exit_code"] == 0
    home.settle()
    assert git(repo, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]


def test_a_worker_knows_its_task_its_session_and_its_place(house: Open, repo: Path) -> None:
    home = house()
    out = repo.parent / "env.txt"
    command = (
        f"""printf '%s\\n' "$CORRAL_TASK_ID" "$CORRAL_SESSION_ID" "$CORRAL_WORKTREE" "$CORRAL_PROJECT" "$PWD" > {out}"""
    )
    detail = home.until_status(home.submit(command), "completed")
    task, session, worktree, project, cwd = out.read_text().split()
    assert (task, session) == (detail["task_id"], detail["session_id"])
    assert worktree == cwd != str(repo) and project == str(repo)


def test_a_setup_command_gets_no_credential(house: Open, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = repo.parent / "env.txt"
    monkeypatch.setenv("HTTP_PROXY", "http://user:opensesame@proxy.test")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "opensesame")
    home = house(worktrees={"setup": [f"env > {out}"]})
    home.until_status(home.submit("true"), "completed")
    environment = out.read_text()
    assert "HTTPS_PROXY=http://proxy.test" in environment and "PORT=" in environment
    assert "opensesame" not in environment


def test_a_failed_attempt_is_salvaged_and_the_task_comes_back_with_a_pause(house: Open, repo: Path) -> None:
    home = house(tasks={"max_retries": 3})
    task_id = home.submit("echo half > half.txt; exit 3")
    detail = home.until_status(task_id, "pending", timeout_s=20)
    while detail["attempts"] == 0:
        detail = home.until_status(task_id, "pending")
    home.settle()
    assert (detail["error_code"], detail["attempts"]) == ("command_failed", 1)
    assert detail["not_before_at"] is not None
    (saved,) = salvage.listing(home.worktree_context.repo)
    assert saved.files == ["half.txt"] and task_id in saved.reason
    assert git(repo, "show", f"{saved.ref}:half.txt") == "half"
    assert home.worktrees.listing() == [] and requests(home) == []


@pytest.mark.req("FR-QUEUE-009", "FR-QUEUE-010")
def test_out_of_retries_is_dead_and_keeps_why(house: Open) -> None:
    home = house(tasks={"max_retries": 2, "retry_initial_s": 0})
    task_id = home.submit("echo broken pipe; exit 4")
    detail = home.until_status(task_id, "dead")
    assert detail["attempts"] == 3 and detail["error_code"] == "command_failed" and "4" in detail["error_message"]
    kinds = [event["kind"] for event in detail["history"]]
    assert kinds.count("task.claimed") == 3 and kinds.count("task.retried") == 2 and kinds[-1] == "task.dead"


@pytest.mark.req("FR-QUEUE-010")
def test_a_task_that_kills_its_own_worker_each_time_ends_in_dead(house: Open) -> None:
    home = house(tasks={"max_crashes": 1, "retry_initial_s": 0})
    detail = home.until_status(home.submit("kill -9 $$"), "dead")
    assert detail["crashes"] == 2 and detail["error_code"] == "killed"


@pytest.mark.req("FR-QUEUE-010")
def test_a_worker_killed_from_outside_keeps_its_retries(house: Open, repo: Path) -> None:
    home = house(tasks={"max_retries": 0, "max_crashes": 2, "retry_initial_s": 0})
    task_id = home.submit(
        "test -e $CORRAL_PROJECT/.corral/go && touch done.txt || { echo $$ > $CORRAL_PROJECT/.corral/worker; exec sleep 300; }"
    )
    record = repo / ".corral" / "worker"
    for kills in (1, 2):
        home.until(lambda: record.is_file() and record.read_text().endswith("\n"))
        if kills == 2:
            (repo / ".corral" / "go").touch()
        worker = int(record.read_text())
        record.unlink()
        os.kill(worker, signal.SIGKILL)
    detail = home.until_status(task_id, "completed")
    assert detail["attempts"] == 1 and detail["crashes"] == 0
    cut = [event["data"] for event in detail["history"] if event["kind"] == "task.retried"]
    assert [(data["error_code"], data["is_counted"]) for data in cut] == [("killed", False)] * 2


@pytest.mark.req("FR-QUEUE-003")
def test_cancelling_a_running_task_ends_its_processes_and_keeps_its_work(house: Open, repo: Path) -> None:
    home = house()
    task_id = home.submit("echo partial > partial.txt; touch ready; sleep 300")
    home.until(lambda: any(worktrees_of(repo).glob("*/ready")))
    home.db.write(lambda conn: _cancel(conn, task_id, home))
    detail = home.until_status(task_id, "cancelled", timeout_s=20)
    home.settle()
    assert detail["cancel_reason"] == "Not needed." and detail["error_code"] is None
    (saved,) = salvage.listing(home.worktree_context.repo)
    assert "partial.txt" in saved.files and home.worktrees.listing() == []


def _cancel(conn: Any, task_id: str, house: House) -> Any:
    from corral.work.tasks import tasks

    return tasks.cancel(conn, task_id, utc_now(), house.settings.tasks, reason="Not needed.")


@pytest.mark.req("FR-QUEUE-003")
def test_a_cancellation_that_was_accepted_counts_even_if_the_worker_succeeds(house: Open, repo: Path) -> None:
    home = house()
    task_id = home.submit("trap 'exit 0' TERM; echo x > x.txt; touch ready; while :; do sleep 0.05; done")
    home.until(lambda: any(worktrees_of(repo).glob("*/ready")))
    home.db.write(lambda conn: _cancel(conn, task_id, home))
    home.until_status(task_id, "cancelled", timeout_s=20)
    home.settle()
    assert requests(home) == []


def test_work_on_another_branch_counts_if_it_descends_from_the_base(house: Open, repo: Path) -> None:
    home = house()
    command = "git switch -q -c elsewhere && echo z > z.txt && git add z.txt && git commit -q -m mine && echo w > w.txt"
    task_id = home.submit(command, author_name="Somebody", author_email="some@body.test")
    detail = home.until_status(task_id, "completed")
    (merge,) = requests(home)
    assert git(repo, "rev-parse", f"refs/heads/{detail['branch']}") == merge["head_sha"]
    assert git(repo, "show", f"{merge['head_sha']}:z.txt") == "z"
    assert git(repo, "show", f"{merge['head_sha']}:w.txt") == "w"
    assert git(repo, "show", "-s", "--format=%an <%ae>", merge["head_sha"]) == "Somebody <some@body.test>"


@pytest.mark.req("G11")
def test_a_detached_head_counts_and_what_the_branch_had_besides_is_kept(house: Open, repo: Path) -> None:
    home = house()
    command = (
        "echo 1 > one.txt && git add . && git commit -q -m one && git checkout -q --detach HEAD~1"
        " && echo 2 > two.txt && git add . && git commit -q -m two"
    )
    home.until_status(home.submit(command), "completed")
    home.settle()
    (merge,) = requests(home)
    assert git(repo, "ls-tree", "--name-only", merge["head_sha"]).split() == ["README.md", "src", "two.txt"]
    (saved,) = salvage.listing(home.worktree_context.repo)
    assert git(repo, "show", f"{saved.sha}:one.txt") == "1"


def test_a_head_left_on_an_older_commit_does_not_hide_the_branch(house: Open, repo: Path) -> None:
    home = house()
    command = "echo 1 > one.txt && git add . && git commit -q -m one && git checkout -q --detach HEAD~1"
    home.until_status(home.submit(command), "completed")
    (merge,) = requests(home)
    assert git(repo, "show", f"{merge['head_sha']}:one.txt") == "1"


@pytest.mark.req("G11")
def test_a_head_that_does_not_descend_from_the_base_fails_and_is_salvaged(house: Open, repo: Path) -> None:
    home = house()
    command = "git switch -q --orphan other && echo q > q.txt && git add q.txt && git commit -q -m q"
    detail = home.until_status(home.submit(command), "failed")
    home.settle()
    assert detail["error_code"] == "not_descendant" and requests(home) == []
    (saved,) = salvage.listing(home.worktree_context.repo)
    assert git(repo, "show", f"{saved.ref}:q.txt") == "q"


def test_a_branch_that_was_rewritten_keeps_what_was_committed_on_it_before(house: Open, repo: Path) -> None:
    one = house()
    command = (
        "echo 1 > one.txt && git add . && git commit -q -m one"
        " && git reset -q --hard $(git commit-tree -m other 'HEAD~1^{tree}')"
    )
    detail = one.until_status(one.submit(command), "failed")
    one.settle()
    (kept,) = [saved for saved in salvage.listing(one.worktree_context.repo) if saved.ref in detail["error_message"]]
    assert detail["error_code"] == "not_descendant" and git(repo, "show", f"{kept.ref}:one.txt") == "1"


def test_a_branch_that_does_not_exist_is_not_retried(house: Open) -> None:
    home = house()
    detail = home.until_status(home.submit("true", target="nowhere"), "failed")
    assert detail["error_code"] == "not_found" and detail["attempts"] == 1 and "nowhere" in detail["error_message"]


def test_overlapping_claims_never_run_at_the_same_time(house: Open, repo: Path) -> None:
    home = house()
    marks = repo.parent / "marks"
    marks.mkdir()
    command = f"mkdir {marks}/busy || echo clash > {marks}/clash; sleep 0.2; rmdir {marks}/busy"
    ids = home.submit_all(
        [
            {"title": f"t{n}", "command": command, "claims": [claim]}
            for n, claim in enumerate(("src/**", "src/a.py", "src"))
        ]
    )
    home.until(lambda: all(home.status(task_id) == "completed" for task_id in ids))
    assert not (marks / "clash").exists()


@pytest.mark.req("FR-QUEUE-008")
def test_a_dependent_starts_from_the_tip_that_its_parent_landed_on(house: Open, repo: Path) -> None:
    home = house()
    parent = home.submit("echo base > base.txt")
    child = home.submit("cat base.txt", wait_for=[parent])
    home.until_status(parent, "completed")
    home.settle()
    assert home.status(child) == "waiting"
    head = requests(home)[0]["head_sha"]
    git(repo, "merge", "-q", "--ff-only", head)
    _land(home, requests(home)[0]["merge_id"], head)
    assert home.until_status(child, "completed")["result"]["output"] == "base"


def _land(house: House, merge_id: str, sha: str) -> None:
    from corral.core.states import MergeState, ReceiptStatus
    from corral.work.merges.store import receipts
    from corral.work.tasks import tasks

    def landed(conn: Any) -> None:
        receipt = receipts.add(conn, tree="t" * 40, fingerprint="f", status=ReceiptStatus.UNVERIFIED, now=utc_now())
        row = merges.finish(
            conn, merge_id, MergeState.LANDED, now=utc_now(), landed_sha=sha, receipt_id=receipt["receipt_id"]
        )
        assert row is not None
        tasks.merge_settled(conn, row["task_id"], utc_now())

    house.db.write(landed)


@pytest.mark.req("FR-SWARM-001")
def test_ten_agents_work_at_once_and_no_more(house: Open, repo: Path) -> None:
    home = house(supervisor={"max_agents": 10})
    seen: list[int] = []
    gate = repo.parent / "gate"
    ids = [home.submit(f"while [ ! -e {gate} ]; do sleep 0.02; done") for _ in range(12)]

    def look() -> bool:
        seen.append(sum(home.detail(task_id)["started_at"] is not None for task_id in ids))
        return seen[-1] >= 10

    home.until(look)
    assert sum(home.status(task_id) == "running" for task_id in ids) == 10
    gate.touch()
    home.until(lambda: all(home.status(task_id) == "completed" for task_id in ids))


def test_sessions_of_workers_begin_and_end_with_their_attempts(house: Open) -> None:
    from corral.coordination.sessions.store import sessions

    home = house()
    detail = home.until_status(home.submit("true"), "completed")
    session = home.db.read(lambda conn: sessions.get(conn, detail["session_id"]))
    assert session is not None and session["status"] == "disconnected" and session["agent_type"] == "command"
    assert session["task_id"] == detail["task_id"] and session["end_reason"] == "completed"
    assert json.dumps(detail)


def test_a_worktree_that_cannot_go_stays_with_a_note(house: Open, repo: Path) -> None:
    home = house()
    made = home.worktrees.create("mine", session_id=None, base=None)
    git(repo, "worktree", "lock", "--reason", "mounted", made["path"])
    after = home.worktrees.remove("mine")
    assert after["removed"] is False and after["state"] == "reclaiming" and "lock" in after["note"]
    git(repo, "worktree", "unlock", made["path"])
    row = home.db.read(lambda conn: worktree_rows.live_by_name(conn, "mine"))
    assert row is not None
    from corral.work.worktrees.allocation import roll_back

    assert roll_back(home.worktree_context, row) and not Path(made["path"]).exists()


def test_one_worker_that_cannot_be_looked_at_does_not_keep_the_others_from_ending(
    house: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    home = house()
    slow = home.submit(f"echo $$ > {tmp_path}/pid; while ! test -e {tmp_path}/go; do sleep 0.02; done")
    home.until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()))
    pid, look = int((tmp_path / "pid").read_text()), Worker.observe

    def observe(worker: Worker, now: datetime) -> Observation:
        if worker.pid == pid:
            raise OSError(5, "Input/output error")
        return look(worker, now)

    with monkeypatch.context() as patched:
        patched.setattr(Worker, "observe", observe)
        quick = home.submit("true")
        home.until_status(quick, "completed")
        assert home.status(slow) == "running" and "Input/output error" in caplog.text
        assert list(home.supervisor.unobserved()) == [slow] and "Input/output" in home.supervisor.unobserved()[slow]
        services: Any = SimpleNamespace(of=lambda _part: home.supervisor)
        (need,) = home.db.read(lambda conn: list(unobserved_workers(services, conn)))
        assert (
            "cannot be observed" in need.what
            and "Input/output error" in need.what
            and need.ids == {"task_id": slow}
            and slow[:8] in need.remedy
        )
    home.until(lambda: home.supervisor.unobserved() == {})
    (tmp_path / "go").touch()
    home.until_status(slow, "completed")
