"""Who is appointed: the agent that is named, or the first of the team who can, or whatever the settings say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from corral.config.paths import find_project
from corral.config.roster import Roster
from corral.config.teams import TeamAgent
from corral.core.errors import ConfigInvalid, InvalidInput, NotFound, RunnerUnavailable
from corral.core.states import RunnerName
from corral.store.rows.tasks import TaskDoer
from corral.work.tasks.agents import ResolvedAgent, resolve_agent, settle
from corral.work.tasks.wire import read_submissions

Make = Callable[..., Roster]
PYTHON = {"capabilities": ["python"]}


def anything(_runner: RunnerName, _program: Sequence[str]) -> None:
    """Everything is installed."""


def without(*missing: str) -> Callable[[RunnerName, Sequence[str]], None]:
    def check(runner: RunnerName, program: Sequence[str]) -> None:
        if (program[0] if program else str(runner)) in missing:
            raise RunnerUnavailable(f"{missing} is missing.")

    return check


@pytest.fixture
def roster(repo: Path) -> Make:
    file = repo / ".claude" / "agents" / "mine.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: mine\ndescription: d\nrunner: mine\ncommand: [mine]\nmodel: haiku\n---\nMINE\n")

    def make(*team: dict[str, Any]) -> Roster:
        members = [{"role": "r", "capabilities": [], "description": "d", **member} for member in team]
        return Roster(find_project(repo, initialised=False), [TeamAgent.model_validate(member) for member in members])

    return make


def task(**fields: Any) -> TaskDoer:
    nothing = {"agent": None, "agent_requirements": None, "runner": None, "command": None}
    return cast(TaskDoer, {**nothing, **fields})


def who(post: ResolvedAgent) -> tuple[str | None, str | None]:
    return (str(post.runner) if post.runner else None), (post.agent.name if post.agent else None)


TALKER = {"name": "Talker", "capabilities": ["python"]}
MASON = {"name": "Mason", "capabilities": ["python"], "runner": "mine", "instructions": "STONES"}
SMITH = {
    "name": "Smith",
    "capabilities": ["python", "sql"],
    "runner": "claude",
    "model": "opus",
    "instructions": "IRON",
}
SHELL = {"name": "Shell", "capabilities": ["python"], "runner": "command"}


@pytest.mark.req("TEAM-1")
def test_what_is_required_decides_only_where_the_team_declares_runners_and_there_is_a_prompt(roster: Make) -> None:
    prompted = task(runner="claude", agent_requirements=PYTHON)
    assert who(resolve_agent(prompted, roster(TALKER), anything)) == ("claude", None)
    assert who(resolve_agent(prompted, roster(TALKER, SHELL, MASON, SMITH), anything)) == ("command", "Mason")
    assert who(resolve_agent(prompted, roster(TALKER, MASON, SMITH), without("mine"))) == ("claude", "Smith")
    assert who(resolve_agent(task(runner="claude"), roster(MASON), anything)) == ("claude", None)
    by_hand = task(runner="command", command="true", agent_requirements=PYTHON)
    assert who(resolve_agent(by_hand, roster(MASON), anything)) == ("command", None)
    assert who(resolve_agent(task(agent_requirements=PYTHON), roster(MASON), anything)) == (None, None)


@pytest.mark.req("SUP-FR5", "FR-SWARM-002")
@pytest.mark.parametrize(
    "work", [{"runner": "claude"}, {"runner": "anthropic"}, {"runner": "command", "command": "true"}]
)
@pytest.mark.parametrize("team", [(), (TALKER,), (SMITH,)])
def test_what_nobody_is_capable_of_is_refused_with_what_there_is(
    roster: Make, work: dict[str, Any], team: tuple[dict[str, Any], ...]
) -> None:
    with pytest.raises(InvalidInput, match=r"Nobody here is capable of cobol\. There are: .*researcher \(research\)"):
        resolve_agent(task(**work, agent_requirements={"capabilities": ["cobol"]}), roster(*team), anything)


@pytest.mark.req("FR-SWARM-002")
def test_among_equals_the_one_with_the_least_to_do_is_next(roster: Make) -> None:
    other = {**SMITH, "name": "Other"}
    wanted = task(runner="claude", agent_requirements=PYTHON)
    for at_work, agent in (({}, "Smith"), ({"Smith": 1}, "Other"), ({"Smith": 2, "Other": 2}, "Smith")):
        assert who(resolve_agent(wanted, roster(SMITH, other), anything, at_work)) == ("claude", agent)
    research = task(runner="claude", agent_requirements={"capabilities": ["research"]})
    team = roster({**SMITH, "capabilities": ["research"]})
    assert who(resolve_agent(research, team, anything, {"Smith": 9})) == ("claude", "Smith"), (
        "definitions come after a team"
    )


def test_nobody_who_can_is_told_apart_from_nobody_who_is_there(roster: Make) -> None:
    prompted = task(runner="claude", agent_requirements=PYTHON)
    with pytest.raises(RunnerUnavailable):
        resolve_agent(prompted, roster(MASON), without("mine"))
    with pytest.raises(InvalidInput, match="capable of python, sql"):
        resolve_agent(
            task(runner="claude", agent_requirements={"capabilities": ["python", "sql"]}), roster(MASON), anything
        )
    with pytest.raises(InvalidInput, match="Talker is not capable of sql, but of python"):
        resolve_agent(task(agent="Talker", agent_requirements={"capabilities": ["sql"]}), roster(TALKER), anything)


def test_what_it_is_told_and_runs_on_is_that_of_the_runner_that_executes_it(roster: Make) -> None:
    own = resolve_agent(task(agent="mine"), roster(), anything)
    assert (own.program, own.definition, own.instructions) == (("mine",), None, "MINE")
    inside = resolve_agent(task(agent="mine", runner="claude"), roster(), without("mine"))
    assert inside.definition is not None and inside.definition.instructions == "MINE"
    assert (inside.program, inside.instructions, inside.model) == ((), None, "haiku")
    member = resolve_agent(task(agent="smith"), roster(SMITH), anything)
    assert (member.definition, member.instructions, member.model) == (None, "IRON", "opus")
    both = resolve_agent(task(agent="MINE"), roster({"name": "Mine", "instructions": "MORE"}), anything)
    assert (both.program, both.instructions) == (("mine",), "MINE\n\nMORE")
    by_hand = resolve_agent(task(agent="mine", runner="command", command="true"), roster(), without("mine"))
    assert who(by_hand) == ("command", "mine") and by_hand.program == ()


def test_a_batch_is_refused_as_a_whole_with_every_agent_that_is_wrong(roster: Make, repo: Path) -> None:
    (repo / ".claude" / "agents" / "broken.md").write_text("---\nname: broken\n---\nx")
    agents = ("mine", "nobody", "broken", "Shell")
    items = read_submissions([{"title": "t", "agent": agent, "prompt": "p"} for agent in agents])
    with pytest.raises(InvalidInput) as refused:
        settle(items, roster(SHELL), anything)
    messages = {error["index"]: error["message"] for error in refused.value.details["errors"]}
    assert list(messages) == [1, 2, 3]
    assert "there are: Shell, broken, mine, implementer, orchestrator" in messages[1]
    assert "description: is required" in messages[2]
    assert "has no command of its own" in messages[3]


def test_a_key_that_no_task_has_is_refused_with_the_one_that_is_meant() -> None:
    wrong: list[dict[str, Any]] = [{"depends_on": ["a"]}, {"timeout": 3}, {"limits": {"turns": 3}}]
    with pytest.raises(InvalidInput) as refused:
        read_submissions([{"title": "t", "command": "true", **fields} for fields in wrong])
    told = {(error["field"], error["message"].rpartition(";")[2]) for error in refused.value.details["errors"]}
    assert told == {
        ("depends_on", " did you mean `wait_for`?"),
        ("timeout", " did you mean `timeout_s`?"),
        ("limits.turns", " did you mean `max_turns`?"),
    }


def test_what_executes_a_task_is_settled_by_its_agent_unless_it_says_so(roster: Make) -> None:
    items = read_submissions(
        [
            {"title": "t", "agent": "MINE"},
            {"title": "t", "agent": "mine", "runner": "claude"},
            {"title": "t", "agent": "mine", "command": "true"},
            {"title": "t", "prompt": "p"},
            {"title": "t", "description": "for a session"},
        ]
    )
    settled = settle(items, roster(), anything)
    assert [item.runner and str(item.runner) for item in settled] == ["command", "claude", "command", "claude", None]


def test_a_definition_that_went_is_told_when_it_is_looked_up_again(roster: Make, repo: Path) -> None:
    file = repo / ".claude" / "agents" / "mine.md"
    assert who(resolve_agent(task(agent="mine"), roster(), anything)) == ("command", "mine")
    file.write_text("---\nname: mine\ndescription: d\n---\nx")
    with pytest.raises(InvalidInput, match="has no command of its own"):
        resolve_agent(task(agent="mine", runner="command"), roster(), anything)
    file.write_text("---\nname: mine\ndescription: d\nrunner: mine\n---\nx")
    with pytest.raises(ConfigInvalid):
        resolve_agent(task(agent="mine"), roster(), anything)
    file.unlink()
    with pytest.raises(NotFound):
        resolve_agent(task(agent="mine"), roster(), anything)


@pytest.mark.req("SUP-FR5")
@pytest.mark.parametrize(
    ("capability", "agent"),
    [("research", "researcher"), ("implementation", "implementer"), ("review", "reviewer"), ("REVIEW", "reviewer")],
)
def test_a_task_goes_to_the_kind_of_agent_that_advertises_what_it_requires(
    roster: Make, capability: str, agent: str
) -> None:
    wanted = task(runner="claude", agent_requirements={"capabilities": [capability]})
    assert who(resolve_agent(wanted, roster(), anything)) == ("claude", agent)
    assert who(resolve_agent({**wanted, "runner": "anthropic"}, roster(), anything)) == ("anthropic", agent)
    assert who(resolve_agent(wanted, roster(MASON), anything)) == ("claude", agent), "nobody in the team can"
    colleague = {**SMITH, "capabilities": [capability]}
    assert who(resolve_agent(wanted, roster(MASON, colleague), anything)) == ("claude", "Smith")
    with pytest.raises(RunnerUnavailable):
        resolve_agent(wanted, roster(), without("claude"))


def test_the_limits_of_a_definition_are_those_of_its_tasks_attempts(roster: Make, repo: Path) -> None:
    file = repo / ".claude" / "agents" / "mine.md"
    file.write_text(file.read_text().replace("model: haiku", "model: haiku\nlimits: {timeout_s: 9, memory_mb: 64}"))
    assert resolve_agent(task(agent="mine"), roster(), anything).limits == {"timeout_s": 9, "memory_mb": 64}
    assert resolve_agent(task(runner="claude"), roster(), anything).limits == {}
