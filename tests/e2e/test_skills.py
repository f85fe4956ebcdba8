"""Each skill, loaded under its name by the real client and followed against the real daemon: it does what it promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit_all, git
from tests.e2e.stage import Step, bash, script, text, tool
from tests.e2e.team import ROOT, Member, Pair, Team

pytestmark = pytest.mark.e2e


def corral(name: str, **arguments: Any) -> Step:
    return tool(f"mcp__plugin_corral_corral__{name}", **arguments)


def write(path: str, content: str = "x\n") -> Step:
    return tool("Write", file_path=f"$CWD/{path}", content=content)


def body(skill: str) -> str:
    return (ROOT / "skills" / skill / "SKILL.md").read_text().split("---\n", 2)[2].strip()


def follow(member: Member, skill: str, *steps: Step, say: str = "Do this.") -> str:
    """Have a session load a skill, and do as it says; returns what the model was told."""
    transcript = member.do(tool("Skill", skill=f"corral:{skill}"), *steps, say=say)
    assert body(skill) in transcript
    return transcript


@pytest.mark.req("RESERVE-2", "RESERVE-3")
def test_reserving_files(pair: Pair) -> None:
    team, holder, other = pair
    transcript = follow(
        holder,
        "reserving-files",
        corral("check_locks", file_paths=["src/**", "api:GET /v1/users"]),
        corral("acquire_lock", file_path="src/**", reason="TASK-7: new header", ttl_minutes=60),
        corral("acquire_lock", file_path="api:GET /v1/users", reason="TASK-7: new header"),
    )
    assert transcript.count('"success":true') >= 2
    assert team.locks() == {"src/**": holder.session_id, "api:GET /v1/users": holder.session_id}
    transcript = follow(
        other,
        "reserving-files",
        corral("acquire_lock", file_path="src/a.py", reason="TASK-8"),
        write("src/a.py"),
        write("docs.md"),
        corral(
            "send_message", to=[holder.name], subject="May I have src/a.py?", body_md="For TASK-8.", importance="high"
        ),
    )
    assert f'"locked_by":"{holder.name}"' in transcript and "TASK-7: new header" in transcript
    assert "src/a.py" not in git(team.repo, "status", "--short") and (team.repo / "docs.md").exists()
    asked = holder.do(corral("release_lock", file_path="src/**"), corral("release_lock", file_path="api:GET /v1/users"))
    assert "May I have src/a.py?" in asked
    other.do(corral("acquire_lock", file_path="src/a.py", reason="TASK-8"), write("src/a.py"), corral("check_locks"))
    assert (team.repo / "src" / "a.py").read_text() == "x\n"
    assert team.locks()["src/a.py"] == other.session_id


@pytest.mark.req("DISCOVER-1")
def test_messaging(pair: Pair) -> None:
    _team, python, other = pair
    python.do(corral("register_session", capabilities=["python"]))
    transcript = follow(
        other,
        "messaging",
        corral("discover_agents", capability="python"),
        corral(
            "send_message", to=[python.name], subject="Which parser?", body_md="For src/b.py.", thread_id="batch-12"
        ),
        write("meanwhile.md"),
    )
    assert f'"agent_id":"{python.name}"' in transcript
    received = follow(
        python,
        "messaging",
        corral("fetch_inbox", include_bodies=True),
        corral(
            "send_message", to=[other.name], subject="Re: Which parser?", body_md="The old one.", thread_id="batch-12"
        ),
    )
    assert "For src/b.py." in received and "batch-12" in received
    answer = other.do(bash("true"))
    assert "The old one." in answer and python.name in answer


@pytest.mark.req("HANDOFF-1", "HANDOFF-2", "HANDOFF-5")
def test_handing_off(team: Team) -> None:
    member = team.member()
    transcript = follow(
        member,
        "handing-off",
        corral("read_handoff"),
        write("header.py"),
        bash("git add header.py && git commit -q -m 'The header' -- header.py && git status --short"),
        corral(
            "write_handoff",
            summary="The header is parsed; the footer is not begun.",
            completed_work=["header.py"],
            next_steps=["Write footer.parse()"],
            relevant_files=["footer.py"],
        ),
        corral("release_lock", file_path="header.py"),
        corral("remember", summary="The clock test needs TZ=UTC", tags=["tests"]),
    )
    assert re.search(r'"handoff_id":"[0-9a-f-]{36}"', transcript)
    member.conversation.finish()
    successor = team.member()
    successor.do(bash("true"))
    briefing = "\n".join(successor.requests[-1].texts)
    assert "the footer is not begun" in briefing and "Write footer.parse()" in briefing
    assert team.locks() == {}


def test_landing_changes(team: Team) -> None:
    team.house.run("worktree", "create", "mine")
    worktree = Path(team.house.json("worktree", "list")[0]["path"])
    branch = git(worktree, "branch", "--show-current")
    member = team.member(cwd=worktree)
    transcript = follow(
        member,
        "landing-changes",
        write("landed.md"),
        bash("git add landed.md && git commit -q -m 'Land it' -- landed.md && git status --short"),
        corral("request_merge", branch=branch),
        bash("corral wait --all --timeout 60"),
    )
    assert '"merge_id":"' in transcript
    assert git(team.repo, "show", "main:landed.md") == "x"


@pytest.mark.req("DELEGATE-1")
def test_task_execution_by_the_names_that_prompts_use(team: Team) -> None:
    """The project's own copies: ``subagent_type="OpenCode-Builder"`` and ``/task-execution``, isolated from the caller."""
    team.house.run("init", "--yes", "--with-opencode", "--no-check")
    commit_all(team.repo, "Coordinate", ".claude", ".corral")
    build = [
        tool("Skill", skill="task-execution"),
        bash("git rev-parse --show-toplevel && git branch --show-current && git status --short"),
        corral("check_locks", file_paths=["built.md"]),
        tool("Write", file_path="built.md", content="x\n"),
        bash("git add built.md && git commit -q -m 'Build it' -- built.md && git status --short && git rev-parse HEAD"),
        text("Built."),
    ]
    run = team.run(
        tool(
            "Agent",
            description="build",
            prompt=script(*build, say="Follow the skill /task-execution."),
            subagent_type="OpenCode-Builder",
            run_in_background=False,
        ),
        flags=("--allowedTools", "Agent"),
    )
    assert run.exit_code == 0
    last = next(r for r in reversed(team.stage.requests) if r.step == {"text": "Built."})
    assert body("task-execution") in "\n".join([*last.texts, *last.result_texts])
    assert "built.md" not in {path.name for path in team.repo.iterdir()}
    commit = last.result_texts[4].split()[-1]
    assert git(team.repo, "show", f"{commit}:built.md") == "x"
    assert last.result_texts[2] == '{"result":[]}', "an agent has the tools of the server"


def test_delegating_a_batch(team: Team) -> None:
    member = team.member()
    transcript = follow(
        member,
        "delegating-a-batch",
        bash("corral feature analyze --claim one.md --claim two.md --json"),
        bash(
            "A=$(corral task submit --title One --command 'echo 1 > one.md' --claims one.md --json | "
            'sed -n \'s/.*"task_id": "\\(.*\\)".*/\\1/p\'); '
            "corral task submit --title Two --command 'cat one.md one.md > two.md' --wait-for $A --json"
        ),
        corral("submit_work", task_type="build", description="Three", command="echo 3 > three.md", thread_id="batch-1"),
        bash("corral wait --all --timeout 60 --json", timeout=90_000),
    )
    assert '"feasibility": "FULL"' in transcript
    landed = {name: git(team.repo, "show", f"main:{name}") for name in ("one.md", "two.md", "three.md")}
    assert landed == {"one.md": "1", "two.md": "1\n1", "three.md": "3"}
