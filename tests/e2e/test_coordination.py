"""Two sessions of the real client, a plain MCP client and a person in one repository: they find each other, and talk."""

from __future__ import annotations

import pytest

from tests.e2e.stage import bash, bash_until, script, text, tool
from tests.e2e.team import Team
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import eventually

pytestmark = pytest.mark.e2e

OURS = "mcp__plugin_corral_corral__"
ALLOWED = ("--allowedTools", "mcp__plugin_corral_corral Agent")


@pytest.mark.req("MCP-1", "DISCOVER-1", "RESERVE-2")
def test_one_asks_the_other_for_a_file_and_gets_it_while_a_third_and_a_person_look_on(team: Team) -> None:
    asking, holding = team.member(*ALLOWED), team.member(*ALLOWED)
    holding.do(tool("Write", file_path="$CWD/shared.txt", content="first\n"), say="Write the first draft")
    holder = holding.name

    transcript = asking.do(tool(f"{OURS}discover_agents"), tool("Read", file_path="$CWD/shared.txt"))
    assert holder in transcript and "Write the first draft" in transcript
    refused = asking.do(tool("Write", file_path="$CWD/shared.txt", content="second\n", if_denied=[text("Refused.")]))
    assert f"shared.txt is held by {holder}" in refused
    asking.do(tool(f"{OURS}send_message", to=[holder], subject="shared.txt", body_md="May I have it?"))

    assert "| May I have it?" in holding.do(bash("true"))
    holding.do(
        tool(f"{OURS}release_lock", file_path="shared.txt"),
        tool(f"{OURS}send_message", to=[asking.name], subject="Re: shared.txt", body_md="It is yours."),
    )
    assert "| It is yours." in asking.do(bash("true"))
    asking.do(tool("Write", file_path="$CWD/shared.txt", content="second\n"))
    assert (team.repo / "shared.txt").read_text() == "second\n"
    assert team.locks() == {"shared.txt": asking.session_id}

    async def scene(third: Agent) -> None:
        sessions = (await third.call("discover_agents"))["agents"]
        assert {holder, asking.name} <= {session["agent_id"] for session in sessions}
        me = (await third.call("register_session", capabilities=["review"], agent_name="Reviewer"))["agent_name"]
        assert (await third.call("acquire_lock", file_path="shared.txt"))["locked_by"] == asking.name
        await third.call("send_message", to=[asking.name], subject="Ready?", body_md="Tell me when it can be read.")
        assert "| Tell me when it can be read." in asking.do(bash("true"))
        asking.do(tool(f"{OURS}send_message", to=[me], subject="Re: Ready?", body_md="Now."))
        assert "Now." in str(await third.call("fetch_inbox", include_bodies=True))
        assert me in team.house.run("session", "list").stdout

    play(team.house, scene)
    eventually(lambda: "Reviewer" not in team.house.run("session", "list", "--status", "active").stdout)
    seen = team.house.run("message", "inbox", "--all").stdout
    assert all(subject in seen for subject in ("shared.txt", "Re: shared.txt", "Ready?", "Re: Ready?"))
    assert holder in team.house.run("status").stdout


@pytest.mark.req("SESSION-1")
def test_a_tool_call_of_a_subagent_is_the_subagents_own(team: Team) -> None:
    parent = team.member(*ALLOWED)
    go = team.repo.parent / "go"
    theirs = tool(f"{OURS}acquire_lock", file_path="api:GET /v1/users")
    inner = script(theirs, bash_until(f"[ -e {go} ]"), text("Agent done."))
    agent = tool("Agent", description="d", prompt=inner, subagent_type="general-purpose", run_in_background=True)
    parent.begin(tool(f"{OURS}acquire_lock", file_path="api:GET /v1/mine"), agent, text("Started."))
    team.until(lambda: len(team.locks()) == 2 and parent.conversation.results)
    (child,) = [row["session_id"] for row in team.sessions() if row["parent_session_id"] == parent.session_id]
    assert team.locks() == {"api:GET /v1/mine": parent.session_id, "api:GET /v1/users": child}
    go.touch()
    team.until(lambda: team.locks() == {"api:GET /v1/mine": parent.session_id})


@pytest.mark.req("FR-MONITOR-004", "NFR-COMP-003")
def test_the_audit_tells_each_tool_call_of_a_session_once_with_its_result_and_without_content(team: Team) -> None:
    one, other = team.member(*ALLOWED), team.member(*ALLOWED)
    other.do(tool("Write", file_path="$CWD/taken.txt", content="theirs\n"))
    (team.repo / "seen.txt").write_text("nothing of this\n")
    one.do(
        tool("Read", file_path="$CWD/seen.txt"),
        tool("Glob", pattern="*.txt"),
        bash("echo said"),
        tool(f"{OURS}acquire_lock", file_path="mine.txt"),
        tool("Write", file_path="$CWD/mine.txt", content="a secret text\n"),
        tool("Write", file_path="$CWD/taken.txt", content="mine\n", if_denied=[text("Refused.")]),
    )

    def told() -> list[tuple[str, str]] | None:
        rows = team.house.json("audit", "--agent", one.name, "--action", "tool")
        return [(row["action"], row["result"]["status"]) for row in rows] if len(rows) >= 5 else None

    assert sorted(eventually(told)) == [
        ("tool.Bash", "ok"),
        ("tool.Glob", "called"),
        ("tool.Read", "called"),
        ("tool.Write", "denied"),
        ("tool.Write", "ok"),
    ]
    (asked,) = eventually(lambda: team.house.json("audit", "--agent", one.name, "--action", "mcp.acquire_lock"))
    assert asked["result"]["status"] == "ok", "a tool of ours is one line, with its answer"
    whole = team.house.run("audit", "--json").stdout
    assert "seen.txt" in whole and "nothing of this" not in whole and "a secret text" not in whole
