"""Several agents on one connection, as a client of Agent Mail has them: one for itself, and all its workers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated, eventually

CODER = {"program": "opencode-coder", "model": "m"}


def _paths(answer: dict[str, Any]) -> tuple[list[str], list[str]]:
    return [row["path_pattern"] for row in answer["granted"]], [row["path"] for row in answer["conflicts"]]


@pytest.mark.req("REGISTER-2", "RESERVE-1", "RESERVE-2", "RESERVE-3")
@pytest.mark.parametrize("chief_comes", [0, 2])
def test_two_coders_and_their_chief_share_one_connection(house: Coordinated, chief_comes: int) -> None:
    async def scene(agent: Agent) -> None:
        names: list[str] = []
        for number in range(3):
            asked: dict[str, Any] = {**CODER, "task_description": f"Executing bd-{number}"}
            if number == chief_comes:
                asked |= {"name": "Sisyphus", "program": "opencode"}
            names.append((await agent.call("register_agent", project_key=str(house.root), **asked))["name"])
        chief = names.pop(chief_comes)
        assert chief == "Sisyphus" and len({chief, *names}) == 3

        async def reserve(who: str, *paths: str) -> Any:
            return _paths(await agent.call("file_reservation_paths", agent_name=who, paths=list(paths)))

        assert await reserve(names[0], "src/a.py", "src/b.py") == (["src/a.py", "src/b.py"], [])
        answer = await agent.call("file_reservation_paths", agent_name=names[1], paths=["src/a.py", "src/c.py"])
        assert _paths(answer) == (["src/c.py"], ["src/a.py"])
        assert [holder["agent"] for holder in answer["conflicts"][0]["holders"]] == [names[0]]
        assert await reserve(chief, "src/*.py") == ([], ["src/*.py"])
        checked = await agent.call("check_file_reservation_conflicts", agent_name=names[1], paths=["src/b.py"])
        assert checked["conflict_free"] is False and checked["own_active"] == []
        assert {row["file_path"]: row["locked_by"] for row in house.json("lock", "list")} == {
            "src/a.py": names[0], "src/b.py": names[0], "src/c.py": names[1]
        }  # fmt: skip

        hello = {"to": [chief], "subject": "Done", "body_md": "x"}
        await agent.call("send_message", sender_name=names[0], **hello)
        await agent.call("send_message", sender_name=chief, to=[names[1]], subject="Well", body_md="y")
        boxes = {who: [(row["from"], row["subject"]) for row in await agent.call("fetch_inbox", agent_name=who)]
                 for who in (chief, *names)}  # fmt: skip
        assert boxes == {chief: [(names[0], "Done")], names[0]: [], names[1]: [(chief, "Well")]}
        messages = (await agent.read(f"resource://inbox/{names[1]}"))["messages"]
        assert [row["subject"] for row in messages] == ["Well"]

        assert (await agent.call("release_file_reservations", agent_name=names[1]))["released"] == 1
        assert await reserve(chief, "src/c.py") == (["src/c.py"], [])
        assert await reserve(names[1], "src/b.py") == ([], ["src/b.py"])
        assert (await agent.call("release_file_reservations", agent_name=names[0]))["released"] == 2

        # Registered again under its name it is the same one, with another task.
        before = await agent.call("whois", agent_name=names[1])
        again = await agent.call("register_agent", **CODER, name=names[1].lower(), task_description="Executing bd-9")
        assert (again["name"], again["task_description"]) == (names[1], "Executing bd-9")
        assert again["inception_ts"] == before["inception_ts"] < again["last_active_ts"]
        live = {row["agent_name"]: row for row in house.json("session", "list", "--status", "active")}
        assert set(live) == {chief, *names} and live[names[1]]["current_task"] == "Executing bd-9"
        (root,) = (row["session_id"] for row in live.values() if row["parent_session_id"] is None)
        assert [row["parent_session_id"] for row in live.values()].count(root) == 2
        assert {row["agent_id"] for row in (await agent.call("discover_agents"))["agents"]} == {chief, *names}

    play(house, scene, profile="full")
    eventually(lambda: house.json("session", "list", "--status", "active") == [])
    assert house.json("lock", "list") == []


def test_what_names_nobody_is_done_by_the_first_who_registered(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        before = (await one.call("register_session"))["agent_name"]
        me = await one.call("register_agent", **CODER, name="Sisyphus")
        assert me["names"] == ["Sisyphus", before]
        coder = await one.call("create_agent_identity", **CODER, name_hint="sisyphus")
        assert coder["id"] != me["id"] and coder["name"].isalpha() and coder["name"] != "Sisyphus"
        began = await one.call("macro_start_session", human_key=str(house.root), **CODER,
                               file_reservation_paths=["src/a.py"])  # fmt: skip
        third = began["agent"]["name"]
        assert third not in ("Sisyphus", coder["name"]) and _paths(began["file_reservations"]) == (["src/a.py"], [])
        assert (await one.call("heartbeat"))["session_id"] == me["id"]
        held = await one.call("acquire_lock", file_path="src/a.py")
        assert (held["success"], held["locked_by"]) == (False, third)
        # Of another connection's agents nobody speaks for any; the name that it had before still reaches Sisyphus.
        for name in ("Sisyphus", third):
            forged = await two.call("fetch_inbox", agent_name=name)
            assert forged["mcp_error"]["error"]["type"] == "OPERATION_NOT_PERMITTED"
            taken = await two.call("register_agent", **CODER, name=name)
            assert taken["mcp_error"]["error"]["type"] == "CONFLICT"
        await two.call("send_message", to=[before], subject="Hello", body_md="x")
        assert [row["subject"] for row in await one.call("fetch_inbox")] == ["Hello"]

    play(house, scene, agents=2, profile="full")


def test_a_blind_copy_is_found_by_the_agent_of_the_connection_that_got_it(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        for name in ("Ann", "Ben", "Cid"):
            await agent.call("register_agent", **CODER, name=name)
        await agent.call("send_message", sender_name="Ben", to=["Ann"], bcc=["Cid"], subject="Plan", body_md="Later")
        inboxes = {
            name: await agent.call("search_messages", query="Plan", agent_name=name) for name in ("Ann", "Ben", "Cid")
        }
        assert {name: len(rows) for name, rows in inboxes.items()} == {"Ann": 1, "Ben": 1, "Cid": 1}

    play(house, scene, profile="mail")


def test_agents_of_a_connection_outlive_a_restart_of_the_daemon(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        await agent.call("register_agent", **CODER, name="Sisyphus")
        coder = await agent.call("register_agent", **CODER)
        await agent.call("file_reservation_paths", agent_name=coder["name"], paths=["src/a.py"])
        house.kill_daemon()
        eventually(lambda: house.daemon_pid() is None)
        (own,) = (await agent.call("check_file_reservation_conflicts", agent_name=coder["name"], paths=["src"]))[
            "own_active"
        ]
        assert own["path_pattern"] == "src/a.py"

    play(house, scene, profile="mail")


def test_a_name_is_taken_up_again_when_its_session_is_over(house: Coordinated) -> None:
    async def yesterday(one: Agent, two: Agent, three: Agent) -> None:
        await one.call("register_session", agent_name="Sisyphus")
        await two.call("register_agent", **CODER, name="BlueLake")
        await three.call("register_agent", **CODER)
        await three.call("register_agent", **CODER, name="RedStone")
        await one.call("send_message", to=["RedStone", "BlueLake"], subject="Tomorrow", body_md="x")

    async def today(agent: Agent) -> None:
        for name in ("Sisyphus", "bluelake", "RedStone"):
            began = await agent.call("macro_start_session", human_key=str(house.root), **CODER, agent_name=name)
            assert began["agent"]["name"] == name
            assert ("Tomorrow" in {row["subject"] for row in began["inbox"]}) == (name != "Sisyphus"), name

    play(house, yesterday, agents=3, profile="full")
    eventually(lambda: house.json("session", "list", "--status", "active") == [])
    play(house, today, profile="mail")
    # Inside Claude Code the name is one more of the session's.
    house.hook("SessionStart", "claude-1")
    eventually(
        lambda: [row["session_id"] for row in house.json("session", "list", "--status", "active")] == ["claude-1"]
    )
    play(house, today_in_claude_code, profile="mail", CLAUDE_CODE_SESSION_ID="claude-1")


async def today_in_claude_code(agent: Agent) -> None:
    me = await agent.call("register_agent", **CODER, name="BlueLake")
    assert (me["id"], me["name"], "BlueLake" in me["names"][1:]) == ("claude-1", "BlueLake", True)


@pytest.mark.req("RESERVE-2")
def test_a_holder_is_told_by_the_name_that_it_reserved_under(house: Coordinated) -> None:
    house.hook("SessionStart", "claude-1")

    async def theirs(agent: Agent) -> None:
        me = (await agent.call("register_agent", **CODER, name="FastTiger"))["name"]
        await agent.call("file_reservation_paths", agent_name=me, paths=["src/a.py"])
        await agent.call("create_agent_identity", **CODER)

    async def mine(two: Agent) -> None:
        answer = await two.call("file_reservation_paths", paths=["src/a.py"])
        assert [holder["agent"] for holder in answer["conflicts"][0]["holders"]] == ["FastTiger"]
        assert [row["agent"] for row in await two.read(f"resource://file_reservations/{house.root}")] == ["FastTiger"]

    play(house, theirs, profile="mail", CLAUDE_CODE_SESSION_ID="claude-1")
    play(house, mine, profile="mail")
