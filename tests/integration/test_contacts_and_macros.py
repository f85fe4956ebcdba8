"""What Agent Mail's clients do by a tool can be done over HTTP and, where it makes sense there, on the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from corral.errors import Conflict, InvalidInput, NotFound, NotPermitted
from tests.coordinated import Coordinated
from tests.integration.mcp.client import DAEMON

ABOUT = {"program": "opencode-coder", "model": "claude-sonnet-4-5"}


def begin(house: Coordinated, **said: Any) -> Any:
    return house.ask("POST", "/macros/start-session", {**ABOUT, **said})


@pytest.mark.req("REGISTER-1", "REGISTER-2", "RESERVE-1", "RESERVE-2", "RESERVE-3")
def test_a_session_begins_reserves_and_joins_a_thread_over_http(house: Coordinated) -> None:
    house.hook("SessionStart", "claude-1", source="startup")
    living = house.ask("GET", "/sessions/claude-1")["agent_name"]

    one = begin(house, name="Sisyphus", task_description="Orchestrator - Batch 7")
    me = one["session"]["session_id"]
    assert one["project"] == house.ask("GET", "/project", query={"human_key": str(house.root)})
    assert (one["locks"], one["conflicts"], one["inbox"]) == ([], [], [])
    shown = house.ask("GET", "/sessions/sisyphus")
    assert (shown["session_id"], shown["current_task"]) == (me, "Orchestrator - Batch 7")
    assert shown["registered"][0]["program"] == "opencode-coder"

    two = begin(house, session_id="claude-1", name="Boulder", paths=["src/**", "docs/"], reason="bd-1", ttl_s=600)
    assert two["session"]["session_id"] == "claude-1" and two["session"]["names"] == ["Boulder"]
    assert {row["file_path"] for row in two["locks"]} == {"src/**", "docs/"} and not two["conflicts"]
    three = begin(house, name="Cedar", paths=["src/a.py", "web/"])
    assert [row["file_path"] for row in three["locks"]] == ["web/"]
    (conflict,) = three["conflicts"]
    assert (conflict["holder"], conflict["file_path"], conflict["reason"]) == (living, "src/**", "bd-1")

    again = begin(house, name="Sisyphus")
    assert again["session"]["session_id"] == me, "who comes again under a name is who he was"
    other = begin(house, name="Sisyphus", new=True)["session"]
    assert other["session_id"] != me and "Sisyphus" not in (other["agent_name"], *other["names"])
    before = house.ask("GET", "/sessions"), house.ask("GET", "/locks")
    for wrong in (
        {"name": living, "paths": ["x"]},
        {"name": "New", "paths": ["../x"]},
        {"name": "New", "ttl_s": 0, "paths": ["x"]},
    ):
        with pytest.raises((Conflict, InvalidInput, NotPermitted)):
            begin(house, **wrong)
    after = house.ask("GET", "/sessions"), house.ask("GET", "/locks")
    assert [row["session_id"] for row in after[0]] == [row["session_id"] for row in before[0]] and after[1] == before[1]

    for number in range(2):
        letter = {"to": ["Boulder", "Cedar"], "subject": f"[bd-1] {number}", "body": "b", "thread_id": "bd-1"}
        house.ask("POST", "/messages", {**letter, "session_id": me, "ack_required": bool(number)})
    joined = house.ask("POST", "/macros/prepare-thread", {**ABOUT, "name": "Cedar", "thread_id": "bd-1", "examples": 1})
    assert joined["session"]["session_id"] == three["session"]["session_id"]
    assert joined["thread"]["summary"] == {
        "participants": ["Sisyphus"], "key_points": ["[bd-1] 0", "[bd-1] 1"], "action_items": ["[bd-1] 1"],
    }  # fmt: skip
    assert joined["thread"]["total_messages"] == 2
    assert [row["subject"] for row in joined["thread"]["examples"]] == ["[bd-1] 1"]
    number = str(joined["inbox"][0]["id"])
    by_number = house.ask(
        "POST", "/macros/prepare-thread", {**ABOUT, "name": "Cedar", "thread_id": number, "examples": 1}
    )
    assert by_number["thread"] == joined["thread"]
    assert [row["subject"] for row in joined["inbox"]] == ["[bd-1] 1", "[bd-1] 0"] and not joined["inbox_left_out"]

    asked = {"session_id": me, "paths": ["src/b.py", "lib/", "api/"], "auto_release": True}
    turn = house.ask("POST", "/macros/reservation-cycle", asked)
    assert sorted(turn["released"]) == ["api/", "lib/"] and len(turn["locks"]) == 2
    assert [row["holder"] for row in turn["conflicts"]] == [living] and house.ask("GET", "/locks") == before[1]
    house.ask("POST", "/locks/acquire", {"session_id": me, "paths": ["lib/"]})
    assert house.ask("POST", "/macros/reservation-cycle", asked)["released"] == ["api/"], "what it held before stays"
    house.ask("POST", "/locks/release", {"session_id": me, "paths": ["lib/"]})
    kept = house.ask("POST", "/macros/reservation-cycle", {**asked, "auto_release": False})
    assert kept["released"] is None
    first, second = (row["lock_id"] for row in kept["locks"])
    given_up = house.ask("POST", "/locks/release", {"session_id": me, "lock_ids": [first]})["released"]
    assert given_up == [kept["locks"][0]["file_path"]]
    assert second in {row["lock_id"] for row in house.ask("GET", "/locks")}
    with pytest.raises(NotPermitted):
        house.ask("POST", "/macros/reservation-cycle", {**asked, "name": "Cedar"})
    with pytest.raises(NotFound) as elsewhere:
        house.ask("GET", "/project", query={"human_key": "/somewhere/else"})
    assert elsewhere.value.to_wire()["error"]["name"] == "project_not_found"


def test_contacts_are_open_whoever_asks_and_a_session_has_as_many_names_as_it_is_given(house: Coordinated) -> None:
    for session, name in (("s-1", "Ann"), ("s-2", "Ben")):
        house.ask("POST", "/sessions", {"session_id": session, "agent_name": name})
    granted = house.ask("POST", "/contacts/request", {"session_id": "s-1", "to": "ben", "ttl_s": 60})
    assert (granted["from"], granted["to"], granted["status"]) == ("Ann", "Ben", "approved")
    answered = house.ask("POST", "/contacts/respond", {"session_id": "s-2", "to": "Ann", "accept": False})
    assert (answered["from"], answered["to"], answered["approved"]) == ("Ann", "Ben", True)
    chosen = house.ask("POST", "/contacts/policy", {"session_id": "s-2", "policy": "block_all"})
    assert (chosen["agent"], chosen["policy"]) == ("Ben", "open")
    assert house.ask("GET", "/contacts", query={"agent": "Ann"}) == []
    house.ask("POST", "/messages", {"session_id": "s-1", "to": ["Ben"], "subject": "s", "body": "b"})
    (contact,) = house.json("message", "contacts", "--agent", "Ann")
    assert (contact["to"], contact["active"]) == ("Ben", True)
    assert "Ann" in house.run("message", "contacts", CORRAL_SESSION_ID="s-2").stdout
    for what, wrong in (("request", {"to": "Nobody"}), ("policy", {"policy": "closed"}), ("respond", {"to": ""}),
                        ("request", {"to": "Ben", "ttl_s": 10**12}), ("request", {"to": "Ben", "name": "Ben"})):  # fmt: skip
        with pytest.raises((NotFound, InvalidInput, NotPermitted)):
            house.ask("POST", f"/contacts/{what}", {"session_id": "s-1", **wrong})

    named = house.json("session", "name", "Ann", "Boulder", "--program", "p", "--model", "m", "--task", "t")
    assert (named["session_id"], named["name"], named["program"]) == ("s-1", "Boulder", "p")
    found = house.json("session", "name", "boulder", "Ben", "--new")
    assert found["session_id"] == "s-1" and found["name"] not in ("Ben", "Ann", "Boulder")
    taken = house.run("session", "name", "s-1", "Ben", check=False)
    assert taken.returncode == 4 and "remedy" in taken.stderr
    house.ask("POST", "/messages", {"session_id": "s-2", "to": [found["name"]], "subject": "to the new", "body": "b"})
    number = str(house.json("message", "inbox", "--agent", "Ann")[0]["id"])
    answered = house.json("message", "reply", number, "aside", "--to", "Ben", CORRAL_SESSION_ID="s-1")
    assert [one["name"] for one in answered["recipients"]] == ["Ben"]
    house.run("memory", "add", "It is so.", "--details", '{"why": "because"}')
    assert house.json("memory", "list")[0]["details"] == {"why": "because"}
    assert "to the new" in house.run("message", "inbox", "--agent", "Ann").stdout
    assert house.run("session", "end", "s-1", check=False, CORRAL_SESSION_ID="s-2").returncode != 0
    assert house.json("session", "end", "Boulder")["ended"] is True
    assert house.json("session", "end", CORRAL_SESSION_ID="s-2")["ended"] is True
    here = house.json("session", "list", "--status", "active", "--status", "idle")
    assert not {"s-1", "s-2"} & {row["session_id"] for row in here}
    required = house.json("task", "submit", "--title", "t", "--description", "d", "--requires", "python")["task_id"]
    assert house.json("task", "claim", CORRAL_SESSION_ID="s-1")["success"] is False
    able = {"session_id": "s-3", "capabilities": ["python"]}
    house.ask("POST", "/sessions", able)
    assert house.json("task", "claim", CORRAL_SESSION_ID="s-3")["task_id"] == required


def test_the_bridge_says_which_profiles_there_are_and_serves_another_folder(house: Coordinated) -> None:
    told = house.run("mcp", "--help").stdout
    assert "--profile" in told and "core, mail, queue, full" in " ".join(told.split())
    assert house.run("mcp", "-h").stdout == told
    env = {**os.environ, "PYTHONPATH": os.fspath(DAEMON)}
    asked = '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n'
    for command in (["-C", str(house.root), "mcp", "--profile", "mail"], ["mcp", "--profile=mail"]):
        done = subprocess.run(
            [sys.executable, "-m", "corral", *command], input=asked, cwd="/" if "-C" in command else house.root, env=env,
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert '"whois"' in done.stdout and '"acquire_lock"' not in done.stdout, command
