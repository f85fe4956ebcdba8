"""Agent definitions are read as Claude Code reads them, and everybody is found by the name that they go by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.config.agents import read_definition
from corral.config.paths import find_project
from corral.config.roster import Agent, Roster
from corral.config.teams import TeamAgent
from corral.core.errors import ConfigInvalid, NotFound

HEAD = "name: scribe\ndescription: Use it.\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str | bytes], Path]:
    def put(text: str | bytes) -> Path:
        file = tmp_path / "scribe.md"
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    return put


def test_what_claude_code_is_given_is_what_the_file_says(write: Callable[[str], Path]) -> None:
    front = (
        f"{HEAD}tools: Read, Bash(git log *, git diff), mcp__x\ndisallowedTools: [Write]\nmodel: inherit\nmaxTurns: 5\n"
    )
    definition = read_definition(write(f"---\n{front}color: red\nisolation: worktree\n---\n\nWrite.\n\n---\nMore.\n"))
    assert definition is not None
    assert definition.for_claude() == {
        "description": "Use it.",
        "prompt": "Write.\n\n---\nMore.",
        "tools": ["Read", "Bash(git log *, git diff)", "mcp__x"],
        "disallowedTools": ["Write"],
    }
    assert (definition.model, definition.maxTurns, definition.runner, definition.capabilities) == (
        None,
        5,
        "claude",
        [],
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Use when: there is need", "Use when: there is need"),
        ("@team writes # and more", "@team writes # and more"),
        ("Say \\n<example>user: hi</example>", "Say \\n<example>user: hi</example>"),
        ("a 'plain' one", "a 'plain' one"),
        ('"quoted: it is"', "quoted: it is"),
    ],
)
def test_a_line_that_is_no_yaml_is_words(write: Callable[[str], Path], line: str, words: str) -> None:
    definition = read_definition(write(f"---\r\nname: scribe\r\ndescription: {line}\r\ntools: *\r\n---\r\nWrite."))
    assert definition is not None
    assert (definition.description, definition.tools) == (words, None)


def test_what_has_no_front_matter_is_no_definition(write: Callable[[str], Path], tmp_path: Path) -> None:
    assert read_definition(write("# Our agents\n\n---\nname: x\n---\n")) is None
    assert read_definition(tmp_path / "missing.md") is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("---\nname: scribe\n---\nx", "description: is required"),
        (f"---\n{HEAD}---\n \n", "instructions: must not be empty"),
        (f"---\n{HEAD}runner: mine\n---\nx", "there is no runner 'mine': use claude or anthropic"),
        (f"---\n{HEAD}command: [mine]\n---\nx", "the runner claude takes no `command`"),
        (f"---\n{HEAD}limits: {{max_turns: 0}}\n---\nx", "limits.max_turns: should be greater than 0"),
        (f"---\n{HEAD}limits: {{max_tuns: 1}}\n---\nx", "limits.max_tuns"),
        (f"---\n{HEAD}runner: mine\ncommand: mine --fast\n---\nx", "command: should be a valid list"),
        (f"---\n{HEAD}runner: mine\ncommand: [./mine]\n---\nx", "must be a name on the PATH, or absolute"),
        (f"---\n{HEAD}runner: mine\ncommand: [mine, '{{model}}']\n---\nx", "`runner_model` is missing"),
        (f"---\n{HEAD}runner: mine\ncommand: [mine]\nrunner_env: {{A-B: x}}\n---\nx", "runner_env"),
        (f"---\n{HEAD}tools: '{',' * 50_000}'\n---\nx", "tools: should be a valid list"),
        (f"---\n{HEAD}color: a: {' ' * 50_000}b\n---\n", "instructions: must not be empty"),
        (f"---\n{HEAD}maxTurns: 0\n---\nx", "maxTurns: should be greater than or equal to 1"),
        (f"---\n{HEAD}tools: [Read\n---\nx", "is not YAML"),
        (f"---\n{HEAD}---\n{'x' * 60_000}", "is larger than 60 KB"),
        (b"---\nname: \xff\n---\nx", "is not UTF-8"),
    ],
)
def test_what_is_wrong_with_a_definition_is_told_by_field(
    write: Callable[[str | bytes], Path], text: str | bytes, fault: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        read_definition(write(text))
    assert fault in refused.value.cause
    assert "scribe.md" in refused.value.message


@pytest.fixture
def roster(repo: Path) -> Callable[..., Roster]:
    """The roster of a repository: ``roster(member, …, scribe="front matter", …)``."""

    def make(*team: dict[str, Any], **definitions: str) -> Roster:
        for name, front in definitions.items():
            file = repo / ".claude" / "agents" / "below" / f"{name}.md"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"---\nname: {name}\ndescription: The project's.\n{front}\n---\nWrite.\n")
        members = [{"role": "r", "capabilities": [], "description": "The team's.", **member} for member in team]
        return Roster(find_project(repo, initialised=False), [TeamAgent.model_validate(member) for member in members])

    return make


def runs(agent: Agent) -> tuple[str, str | None, list[str]]:
    return agent.runner, agent.model, list(agent.program)


MINE = "runner: mine\nrunner_model: m1\nmodel: haiku\ncommand: [mine, '{model}', go]\ncapabilities: sql, tests"


def test_the_team_goes_before_the_project_and_the_project_before_the_plugin(roster: Callable[..., Roster]) -> None:
    everybody = roster({"name": "Reviewer"}, reviewer="model: haiku", implementer="model: opus")
    assert everybody.find("REVIEWER").source == "team"
    assert (everybody.find("implementer").source, everybody.find("implementer").model) == ("project", "opus")
    assert (everybody.find("corral:implementer").source, everybody.find("corral:implementer").model) == ("plugin", None)
    assert everybody.names() == ["Reviewer", "implementer", "orchestrator", "researcher", "resolver"]
    for name in ("../implementer", "corral:Reviewers", ""):
        with pytest.raises(NotFound, match=r"there are: Reviewer, implementer, orchestrator"):
            everybody.find(name)


def test_an_agent_goes_by_the_name_that_its_definition_says(roster: Callable[..., Roster], repo: Path) -> None:
    folder = repo / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "of-last-year.md").write_text("---\nname: Critic\ndescription: Use it.\n---\nJudge.\n")
    assert roster().find("critic").file == folder / "of-last-year.md"


def test_a_definition_has_a_model_for_its_runner_and_one_for_claude(roster: Callable[..., Roster]) -> None:
    mine = roster(mine=MINE).find("mine")
    assert (*runs(mine), mine.claude_model) == ("mine", "m1", ["mine", "m1", "go"], "haiku")
    assert mine.lacks(["SQL", "sqlite"]) == ["sqlite"]


def test_a_member_of_the_team_takes_what_it_does_not_say_from_where_it_is_said(roster: Callable[..., Roster]) -> None:
    everybody = roster(
        {"name": "Plain", "instructions": "Be brief."},
        {"name": "Mine", "capabilities": ["python"]},
        {"name": "Other", "runner": "mine", "model": "m2"},
        {"name": "Second", "runner": "mine"},
        {"name": "Shell", "runner": "command"},
        {"name": "mason", "runner": "claude", "model": "opus"},
        mine=MINE,
        mason=MINE.replace("mine", "mason"),
    )
    assert runs(everybody.find("Plain")) == ("claude", None, [])
    namesake = everybody.find("mine")
    assert (*runs(namesake), namesake.capabilities) == ("mine", "m1", ["mine", "m1", "go"], ("python", "sql", "tests"))
    assert runs(everybody.find("Other")) == ("mine", "m2", ["mine", "m2", "go"])
    assert everybody.find("Other").definition is None
    assert runs(everybody.find("Second")) == ("mine", "m1", ["mine", "m1", "go"])
    assert runs(everybody.find("Shell")) == ("command", None, [])
    assert runs(everybody.find("mason")) == ("claude", "opus", [])
    assert [agent.name for agent in everybody.with_runner()] == ["Other", "Second", "Shell", "mason"]


def test_a_member_that_could_not_be_started_says_why(roster: Callable[..., Roster]) -> None:
    everybody = roster(
        {"name": "Typo", "runner": "mien"},
        {"name": "Fixed", "runner": "fixed", "model": "m2"},
        {"name": "broken"},
        mine=MINE,
        fixed="runner: fixed\ncommand: [fixed]",
        broken="command: [x]",
    )
    for name, reason in (
        ("Typo", "there is no runner 'mien'; there are: command, claude, anthropic, fixed, mine"),
        ("Fixed", "model: the command of the runner 'fixed' does not use {model}"),
        ("broken", "the runner claude takes no `command`"),
    ):
        with pytest.raises(ConfigInvalid) as refused:
            everybody.find(name)
        assert reason in refused.value.cause, name
    assert list(everybody.with_runner()) == []
    assert everybody.has_runners


def test_an_agent_is_shown_with_its_tools_and_limits(roster: Callable[..., Roster]) -> None:
    limits = "maxTurns: 9\nlimits: {timeout_s: 60, max_cost_usd: 0.5}"
    everybody = roster({"name": "Plain"}, scribe=f"tools: Read, Bash\ndisallowedTools: Write\n{limits}")
    shown = everybody.find("scribe").shown()
    assert (shown["tools"], shown["disallowed_tools"]) == (["Read", "Bash"], ["Write"])
    assert shown["limits"] == {"max_turns": 9, "timeout_s": 60, "max_cost_usd": 0.5}
    plain = everybody.find("Plain").shown()
    assert (plain["tools"], plain["disallowed_tools"], plain["limits"]) == (None, [], {})


@pytest.mark.req("SUP-FR5")
def test_capable_are_members_with_a_runner_then_definitions_that_advertise_it(roster: Callable[..., Roster]) -> None:
    members = (
        {"name": "Talker", "capabilities": ["review"]},
        {"name": "Mason", "capabilities": ["Review"], "runner": "claude"},
    )
    shell = {"name": "Shell", "capabilities": ["review"], "runner": "command"}
    everybody = roster(*members, shell, critic="capabilities: review, sql", broken="capabilities: review\ncommand: [x]")
    assert [agent.name for agent in everybody.capable(["review"])] == ["Mason", "critic", "reviewer"]
    assert [agent.name for agent in everybody.capable(["review", "sql"])] == ["critic"]
    hidden = roster({"name": "Reviewer", "capabilities": ["review"]}, researcher="capabilities: history")
    assert [agent.name for agent in hidden.capable(["review"])] == ["critic"], "a name is of one agent"
    assert [agent.name for agent in hidden.capable(["research"])] == []
    assert [agent.name for agent in roster().capable(["implementation"])] == ["implementer"]
