"""A team's file is read as a whole: what is wrong is told field by field, all of it at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.config.teams import read_team
from corral.coordination.teams.holder import Teams
from corral.core.errors import ConfigInvalid

GOOD = """\
team: batch
agents:
  - name: Sisyphus
    role: coordinator
    capabilities: [planning, "review"]
    description: Hands out the work.
  - name: Boulder
    role: builder
    capabilities: []
    description: Does it.
    model: sonnet
    runner: opencode
    instructions: |
      Work in your own worktree.
      Say what you did.
  - {name: Hill, role: Builder, capabilities: [python], description: Does it too.}
"""


def errors_of(tmp_path: Path, text: str | bytes) -> dict[str, str]:
    file = tmp_path / "teams.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigInvalid) as refused:
        read_team(file)
    reasons = {error["field"]: error["reason"] for error in refused.value.details["errors"]}
    assert len(reasons) == len(refused.value.details["errors"])
    return reasons


@pytest.mark.req("TEAM-1")
def test_a_team_is_read_with_all_that_is_said_of_its_agents(tmp_path: Path) -> None:
    file = tmp_path / "teams.yaml"
    file.write_text(GOOD)
    team = read_team(file)
    assert team is not None
    first, second, _ = team.agents
    assert (first.name, first.role, first.capabilities) == ("Sisyphus", "coordinator", ["planning", "review"])
    assert first.description == "Hands out the work."
    assert (second.model, second.runner, second.instructions) == (
        "sonnet", "opencode", "Work in your own worktree.\nSay what you did.",
    )  # fmt: skip


def test_without_a_file_there_is_no_team(tmp_path: Path) -> None:
    assert read_team(tmp_path / "teams.yaml") is None


def test_roles_and_names_are_found_in_any_case(tmp_path: Path) -> None:
    file = tmp_path / "teams.yaml"
    file.write_text(GOOD)
    team = read_team(file)
    assert team is not None
    teams = Teams(team.agents)
    assert teams.members("BUILDER") == ["Boulder", "Hill"]
    assert teams.members("nobody") is None
    assert teams.capabilities("sisyphus") == ["planning", "review"]
    assert teams.capabilities("GreenLake") == []


@pytest.mark.req("TEAM-2")
def test_every_error_is_told_with_its_field_and_the_reason(tmp_path: Path) -> None:
    text = """\
agents:
  - name: One
    capabilities: python
    descripton: typo
  - name: ""
    role: all
    capabilities: [ok, 3, ""]
    description: null
  - just a word
  - {name: ONE, role: "a\\nb", capabilities: [], description: x}
teams: x
"""
    assert errors_of(tmp_path, text) == {
        "agents[0].role": "is required",
        "agents[0].description": "is required",
        "agents[0].capabilities": "should be a valid list (it is 'python')",
        "agents[0].descripton": "is not a known field; did you mean `description`?",
        "agents[1].name": "must not be empty",
        "agents[1].role": "cannot be `all`, which means everybody (it is 'all')",
        "agents[1].capabilities[1]": "should be a valid string (it is 3)",
        "agents[1].capabilities[2]": "must not be empty",
        "agents[1].description": "should be a valid string (it is None)",
        "agents[2]": "must be a mapping with name, role, capabilities, description (it is 'just a word')",
        "agents[3].name": "is also the name of agents[0] ('ONE')",
        "agents[3].role": "must not contain a line break or a control character (it is 'a\\nb')",
        "teams": "is not a known field; did you mean `team`?",
    }


@pytest.mark.req("TEAM-2")
@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("", "agents", "is required"),
        ("agents: []", "agents", "must name at least one agent"),
        ("agents: {}", "agents", "should be a valid list (it is {})"),
        ("agents: [", "", "is not YAML"),
        ("- a", "", "must be a mapping"),
        ("agents: &a []", "", "anchors and aliases"),
        (b"\xff\xfe", "", "is not UTF-8"),
        ("x" * 1_000_001, "", "is larger than 1 MB"),
    ],
)
def test_a_file_that_is_no_team_says_so(tmp_path: Path, text: str | bytes, field: str, reason: str) -> None:
    reasons = errors_of(tmp_path, text)
    assert list(reasons) == [field]
    assert reason in reasons[field]
