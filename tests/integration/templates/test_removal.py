"""`corral uninstall` removes a template's files that the project did not change, and names those that stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import commit, git
from tests.coordinated import Coordinated
from tests.integration.templates.repositories import AGENT, release, template

AGENT_FILE, OTHER, PROJECTS = ".claude/agents/reviewer.md", ".claude/agents/other.md", ".claude/agents/same.md"


def agent(name: str) -> str:
    return AGENT.replace("reviewer", name)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    settings = json.dumps({"env": {"OURS": "1"}, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}})
    files = {OTHER: agent("other"), PROJECTS: agent("same"), ".claude/settings.json": settings}
    return template(tmp_path / "ours", **files)


@pytest.mark.req("FR-TMPL-005")
def test_files_that_nobody_changed_go_and_the_others_are_named(repo: Path, source: Path) -> None:
    house = Coordinated(repo)
    servers = {"mcpServers": {"own": {"command": "x"}}}
    commit(repo, {PROJECTS: agent("same"), ".mcp.json": json.dumps(servers)})
    house.run("init", "--template", str(source), "--yes")
    house.run("init", "--template", str(source), "--yes")
    release(source, "v1.1.0", {".claude/agents/third.md": agent("third")})
    house.run("template", "update", "--yes")
    (repo / OTHER).write_text(agent("other") + "Kindly.\n")
    said = json.loads((repo / ".mcp.json").read_text())
    assert set(said["mcpServers"]) == {"own", "search"}
    answer = house.json("uninstall", "--yes")
    assert answer["kept"] == {OTHER: "you changed it", PROJECTS: "it was there before the template"}
    assert json.loads((repo / ".mcp.json").read_text()) == servers
    left = {file.relative_to(repo).as_posix() for file in (repo / ".claude").rglob("*") if file.is_file()}
    assert left == {OTHER, PROJECTS}


@pytest.mark.req("FR-TMPL-005")
def test_nothing_is_left_of_a_template_that_was_only_used(repo: Path, source: Path) -> None:
    house = Coordinated(repo)
    house.run("init", "--template", str(source), "--yes")
    house.run("daemon", "start")
    assert " stays: " not in house.run("uninstall", "--yes").stdout
    assert git(repo, "status", "--porcelain", "--ignored") == ""


def test_an_entry_that_the_project_changed_stays(repo: Path, source: Path) -> None:
    house = Coordinated(repo)
    house.run("init", "--template", str(source), "--yes")
    (repo / ".mcp.json").write_text(json.dumps({"mcpServers": {"search": {"command": "mine", "args": ["--stdio"]}}}))
    assert ".mcp.json stays: you changed mcpServers.search.command" in house.run("uninstall", "--yes").stdout
    assert json.loads((repo / ".mcp.json").read_text()) == {"mcpServers": {"search": {"command": "mine"}}}


def test_a_lock_that_cannot_be_read_keeps_the_files(repo: Path, source: Path) -> None:
    house = Coordinated(repo)
    house.run("init", "--template", str(source), "--yes")
    (repo / ".corral/template.lock").write_text("{")
    assert "template.lock stays: its files are unknown" in house.run("uninstall", "--yes").stdout
    assert (repo / AGENT_FILE).exists()
