"""What a skill or an agent tells a model to use is there: each command with its options, each tool with its parameters."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from corral.faces.mcp.profiles import CORE, TOOLS
from tests.bundle.test_docs import COMMANDS, lines_with_commands, options, unknown

ROOT = Path(__file__).parents[2]
SKILLS = sorted(ROOT.glob("skills/*/SKILL.md"))
AGENTS = sorted(ROOT.glob(".claude/agents/*.md"))
FILES = pytest.mark.parametrize("file", SKILLS + AGENTS, ids=lambda file: str(file.relative_to(ROOT)))


def unindented(file: Path) -> str:
    """Examples below a step are indented."""
    return "\n".join(line.strip() for line in file.read_text().splitlines())


def loose_options(text: str) -> set[str]:
    """Options that are named in code without their command before them."""
    spans = re.findall(r"`(--[^`]+)`", text)
    return {word for span in spans for word in re.findall(r"(?<!\S)--[a-z][a-z-]*", span)}


def calls(text: str) -> list[tuple[str, str]]:
    """Tools and what stands between their parentheses."""
    return re.findall(r"\b([a-z]+(?:_[a-z]+)+)\(([^`]*?)\)", text, re.DOTALL)


@FILES
def test_every_command_is_there_with_its_options(file: Path) -> None:
    text = unindented(file)
    wrong = {line: what for line in lines_with_commands(text) if (what := unknown(line))}
    assert wrong == {}
    every = {option for command in COMMANDS.values() for option in options(command)}
    assert loose_options(text) <= every


@FILES
def test_every_tool_is_there_with_its_parameters_and_a_session_has_it(file: Path) -> None:
    for name, arguments in calls(unindented(file)):
        named = set(re.findall(r"(\w+)=", re.sub(r'"[^"]*"', "", arguments)))
        assert named <= inspect.signature(TOOLS[name]).parameters.keys(), name
        assert name in CORE or name == "file_reservation_paths", name


@FILES
def test_every_agent_that_work_is_given_to_is_there(file: Path) -> None:
    text, known = unindented(file), {agent.stem for agent in AGENTS}
    named = re.findall(r'subagent_type[:=] ?"(?:corral:)?([\w-]+)"', text) + re.findall(r"--agent ([A-Z]\w+-\w+)", text)
    assert set(named) <= known


def test_something_is_found_to_be_checked() -> None:
    text = "\n".join(unindented(file) for file in SKILLS + AGENTS)
    assert {"corral task submit", "corral wait", "corral merge detail", "corral agent list"} <= {
        " ".join(line.split()[: 2 if line.startswith("corral wait") else 3]) for line in lines_with_commands(text)
    }
    assert {"submit_work", "write_handoff", "check_locks", "send_message"} <= {name for name, _ in calls(text)}
    assert {"--prompt", "--agent"} <= loose_options(text)
    assert unknown('corral task submit --title "x" --promt "…"') == "--promt"


def test_a_batch_is_delegated_as_the_document_writes_it() -> None:
    text = " ".join(unindented(ROOT / "skills" / "delegating-a-batch" / "SKILL.md").split())
    assert 'task(subagent_type="OpenCode-Builder", …)' in text
    assert "all calls in the same message" in text and "Hand all of them over in one response" in text
    assert "Follow the skill `/task-execution`; work only in your own isolated worktree." in text
    assert "`--agent OpenCode-Builder` is OpenCode with google/gemini-3-flash; it sends code to Google" in text
    coordinator = " ".join(unindented(ROOT / ".claude" / "agents" / "orchestrator.md").split())
    assert "All pieces of a batch are handed over in **one** response." in coordinator
    assert "Follow the skill `corral:delegating-a-batch`" in coordinator
    for instructions in (text, coordinator):
        assert not re.search(r"one by one|one after (the )?(other|another)|in turn\b", instructions)
