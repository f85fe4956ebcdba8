"""`corral uninstall` removes a template's files that the project did not change, and names those that stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import commit, commit_all, git
from tests.integration.templates.repositories import AGENT, release, template
from tests.support.coordinated import Coordinated

CONFIG, PAGE, OWN = ".corral/config.yaml", ".corral/templates/page.yaml", ".corral/templates/own.yaml"
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
    files = {PAGE: "name: page\nprompt: Mine.\n", OWN: "name: own\nprompt: x\n", CONFIG: "locks: {ttl_s: 900}\n"}
    files |= {".corral/local.yaml": "locks: {ttl_s: 60}\n", ".corral/notes/a.txt": "x\n"}
    for path, content in files.items():
        (repo / path).parent.mkdir(exist_ok=True)
        (repo / path).write_text(content)
    configuration = json.loads((repo / ".mcp.json").read_text())
    assert set(configuration["mcpServers"]) == {"own", "search"}
    answer = house.json("uninstall", "--yes")
    unsaved = "you changed it, and no commit has it"
    assert answer["kept"] == {
        OTHER: "you changed it", PROJECTS: "it was there before the template",
        PAGE: "you changed it", OWN: "it is yours", ".corral/notes": "Corral did not make it",
        f"{CONFIG}.kept": f"{CONFIG} until now; {unsaved}", ".corral/local.yaml": unsaved,
    }  # fmt: skip
    files[f"{CONFIG}.kept"] = files.pop(CONFIG)
    there = {file.relative_to(repo).as_posix(): file for file in (repo / ".corral").rglob("*") if file.is_file()}
    assert {path: file.read_text() for path, file in there.items()} == files
    assert "Corral is not in" in house.run("uninstall", "--yes", check=False).stderr
    assert json.loads((repo / ".mcp.json").read_text()) == servers
    left = {file.relative_to(repo).as_posix() for file in (repo / ".claude").rglob("*") if file.is_file()}
    assert left == {OTHER, PROJECTS}
    house.run("init", "--yes", "--no-check")
    assert (repo / PAGE).read_text() == files[PAGE]


@pytest.mark.req("FR-TMPL-005")
def test_nothing_is_left_of_a_template_that_was_only_used(repo: Path, source: Path) -> None:
    house = Coordinated(repo)
    before = git(repo, "ls-files")
    house.run("init", "--template", str(source), "--yes")
    house.run("daemon", "start")
    (repo / CONFIG).write_text("locks: {ttl_s: 900}\n")
    commit_all(repo, "with Corral")
    assert " stays: " not in house.run("uninstall", "--yes").stdout
    git(repo, "commit", "-q", "--all", "-m", "without")
    assert git(repo, "status", "--porcelain", "--ignored") == "" and git(repo, "ls-files") == before


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
