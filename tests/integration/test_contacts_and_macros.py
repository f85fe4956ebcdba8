"""What Agent Mail's clients do by a tool can be done on the command line, where it makes sense there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from corral.core.errors import NotFound
from tests.support.coordinated import Coordinated


def test_a_session_has_contacts_and_as_many_names_as_it_is_given(house: Coordinated) -> None:
    for session, name in (("s-1", "Ann"), ("s-2", "Ben")):
        house.ask("POST", "/sessions", {"session_id": session, "agent_name": name})
    assert house.ask("GET", "/contacts", query={"agent": "Ann"}) == []
    house.ask("POST", "/messages", {"session_id": "s-1", "to": ["Ben"], "subject": "s", "body": "b"})
    (contact,) = house.json("message", "contacts", "--agent", "Ann")
    assert (contact["to"], contact["active"]) == ("Ben", True)
    assert "Ann" in house.run("message", "contacts", CORRAL_SESSION_ID="s-2").stdout
    named = house.json("session", "name", "Ann", "Boulder", "--program", "p", "--model", "m", "--task", "t")
    assert (named["session_id"], named["name"], named["program"]) == ("s-1", "Boulder", "p")
    answer = house.json("session", "name", "boulder", "Ben", "--new")
    assert answer["session_id"] == "s-1" and answer["name"] not in ("Ben", "Ann", "Boulder")
    taken = house.run("session", "name", "s-1", "Ben", check=False)
    assert taken.returncode == 4 and "remedy" in taken.stderr
    house.ask("POST", "/messages", {"session_id": "s-2", "to": [answer["name"]], "subject": "to the new", "body": "b"})
    number = str(house.json("message", "inbox", "--agent", "Ann")[0]["id"])
    answered = house.json("message", "reply", number, "aside", "--to", "Ben", CORRAL_SESSION_ID="s-1")
    assert [recipient["name"] for recipient in answered["recipients"]] == ["Ben"]
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
    output = house.run("mcp", "--help").stdout
    assert "--profile" in output and "core, mail, queue, full" in " ".join(output.split())
    assert house.run("mcp", "-h").stdout == output
    asked = '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n'
    for command in (["-C", str(house.root), "mcp", "--profile", "mail"], ["mcp", "--profile=mail"]):
        done = subprocess.run(
            [sys.executable, "-m", "corral", *command], input=asked, cwd="/" if "-C" in command else house.root,
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert '"whois"' in done.stdout and '"acquire_lock"' not in done.stdout, command


def test_a_project_that_is_not_served_here_is_not_found(house: Coordinated) -> None:
    assert house.ask("GET", "/project", query={"human_key": str(house.root)})["human_key"] == str(house.root)
    with pytest.raises(NotFound) as elsewhere:
        house.ask("GET", "/project", query={"human_key": "/somewhere/else"})
    assert elsewhere.value.to_wire()["error"]["name"] == "project_not_found"
    for gone in ("/macros/start-session", "/contacts/request", "/contacts/respond", "/contacts/policy"):
        with pytest.raises(NotFound):
            house.ask("POST", gone, {})
