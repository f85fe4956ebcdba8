"""Whoever asks for the merge of a task's work: it is the task's, and what waits for the task waits for it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tests.conftest import commit, git
from tests.support.coordinated import Coordinated, eventually

CORRAL = f"{shlex.quote(sys.executable)} -m corral"
SOURCE = str(Path(__file__).resolve().parents[2] / "daemon")
READS = "cat src/a.py > seen.txt"


def test_what_waits_for_a_claimed_task_waits_for_the_merge_that_its_session_asked_for(house: Coordinated) -> None:
    offered = house.json("task", "submit", "--title", "By hand", "--description", "Do it.")["task_id"]
    dependent = house.submit("Then this", READS, "--wait-for", offered)
    house.hook("SessionStart", "hand", source="startup")
    assert house.ask("POST", "/tasks/claim", {"session_id": "hand"})["task_id"] == offered
    git(house.root, "worktree", "add", "-q", "-b", "by-hand", str(house.root.parent / "hand"))
    commit(house.root.parent / "hand", {"src/a.py": "by hand\n"})
    (house.root / "src/a.py").write_text("a person's\n")  # so that it cannot land yet
    body = {"branch": "by-hand", "session_id": "hand"}
    merge_id = house.ask("POST", "/merges", body)["merge_id"]
    house.ask("POST", f"/tasks/{offered}/complete", {"success": True, "session_id": "hand"})
    detail = house.json("task", "detail", offered)
    assert (detail["status"], detail["merge"]["merge_id"]) == ("completed", merge_id)
    eventually(lambda: house.ask("GET", f"/merges/{merge_id}")["state"] == "held")
    waited = house.run("wait", offered, "--timeout", "1", "--json", check=False)
    assert waited.returncode == 1 and '"merge_state": "held"' in waited.stdout
    assert house.json("task", "detail", dependent)["status"] == "waiting"
    git(house.root, "checkout", "-q", "--", "src/a.py")
    house.run("wait", offered, dependent, "--timeout", "60")
    assert git(house.root, "show", "main:seen.txt") == "by hand"
    assert git(house.root, "rev-parse", "by-hand"), "a person's branch stays"


def test_what_a_session_committed_in_its_worktree_lands_when_it_says_that_its_task_is_done(house: Coordinated) -> None:
    offered = house.json("task", "submit", "--title", "By hand", "--description", "Do it.")["task_id"]
    dependent = house.submit("Then this", READS, "--wait-for", offered)
    house.hook("SessionStart", "hand", source="startup")
    made = house.hook("WorktreeCreate", "hand", name="hand")
    place = Path(made["hookSpecificOutput"]["worktreePath"])
    house.hook("SessionStart", "hand", cwd=place, source="resume")
    house.ask("POST", "/tasks/claim", {"session_id": "hand"})
    commit(place, {"src/a.py": "by hand\n"})
    (place / "notes.txt").write_text("for itself\n")
    report = {"success": True, "session_id": "hand"}
    done = house.ask("POST", f"/tasks/{offered}/complete", report)
    assert (done["status"], done["uncommitted"]) == ("completed", ["notes.txt"])
    assert house.json("merge", "detail", done["merge_id"])["task_id"] == offered
    house.run("wait", offered, dependent, "--timeout", "60")
    assert git(house.root, "show", "main:seen.txt") == "by hand"
    assert "merge_id" not in house.ask("POST", f"/tasks/{offered}/complete", report), "said again, it changes nothing"


def test_a_worker_that_asks_itself_leaves_a_request_of_its_task_whose_branch_stays(house: Coordinated) -> None:
    (house.root / "src/a.py").write_text("a person's\n")
    worker = f"echo by a worker > src/a.py && git commit -qam made && PYTHONPATH={SOURCE} {CORRAL} merge submit"
    parent = house.submit("Asks itself", worker)
    dependent = house.submit("Then this", READS, "--wait-for", parent)
    eventually(lambda: house.ask("GET", f"/tasks/{parent}/detail")["status"] == "completed")
    merge = eventually(lambda: house.json("merge", "list", "--state", "held"))[0]
    assert merge["task_id"] == parent
    assert house.json("task", "detail", parent)["merge"]["merge_id"] == merge["merge_id"]
    assert len(house.json("merge", "list")) == 1, "what its end brought in is the same request"
    eventually(lambda: house.worktrees_in_use() == [])
    assert git(house.root, "rev-parse", merge["branch"]), "its branch stays while it is open"
    assert house.json("task", "detail", dependent)["status"] == "waiting"
    git(house.root, "checkout", "-q", "--", "src/a.py")
    house.run("wait", parent, dependent, "--timeout", "60")
    assert git(house.root, "show", "main:seen.txt") == "by a worker"
    gone = f"refs/heads/{merge['branch']}"
    eventually(lambda: not git(house.root, "for-each-ref", gone))


def test_a_session_at_work_on_several_tasks_says_which_one_a_branch_is_for(house: Coordinated) -> None:
    house.hook("SessionStart", "hand", source="startup")
    tasks = [house.json("task", "submit", "--title", name, "--description", "Do it.")["task_id"] for name in "ab"]
    for _ in tasks:
        house.ask("POST", "/tasks/claim", {"session_id": "hand"})
    git(house.root, "branch", "side")
    git(house.root, "worktree", "add", "-q", str(house.root.parent / "side"), "side")
    commit(house.root.parent / "side", {"new.txt": "x\n"})
    asked = ("merge", "submit", "side", "--json")
    refused = house.run(*asked, check=False, CORRAL_SESSION_ID="hand")
    assert refused.returncode == 2 and tasks[0] in refused.stderr and "--task" in refused.stderr
    assert house.json("merge", "list") == []
    named = house.json("merge", "submit", "side", "--task", tasks[1][:8], CORRAL_SESSION_ID="hand")
    assert named["task_id"] == tasks[1]


def test_a_held_landing_tells_the_session_whose_uncommitted_file_is_in_the_way(house: Coordinated) -> None:
    for name in ("author", "bystander"):
        house.hook("SessionStart", name, source="startup")
    house.edit("author", "src/a.py")
    house.edit("bystander", "src/b.py")
    (house.root / "src/a.py").write_text("not committed\n")
    task = house.submit("Lands", "echo landed > src/a.py")
    mail = eventually(lambda: house.ask("GET", "/messages", query={"session_id": "author"}))
    assert [row["kind"] for row in mail] == ["merge.held"] and mail[0]["data"]["paths"] == ["src/a.py"]
    assert "src/a.py" in mail[0]["subject"] and "Commit" in mail[0]["body"]
    assert house.ask("GET", "/messages", query={"session_id": "bystander"}) == []
    waited = house.run("wait", task, "--timeout", "1", check=False)
    assert "held" in waited.stdout and "src/a.py" in waited.stderr + waited.stdout
    (need,) = house.json("status")["needs_you"]
    assert need["kind"] == "held_merge" and "src/a.py" in need["what"]
    git(house.root, "checkout", "-q", "--", "src/a.py")
    house.run("wait", task, "--timeout", "60")
    assert len(house.ask("GET", "/messages", query={"session_id": "author"})) == 1, "once"
