"""The plugin bundle says the same everywhere, stays small, and names only what exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral import __version__
from corral.client import last_look
from corral.client.bridge import HOOK
from corral.client.gate import DEADLINE_S
from corral.config.agents import ON_REQUEST

ROOT = Path(__file__).parents[2]
SKILLS = sorted(ROOT.glob("skills/*/SKILL.md"))
AGENTS = sorted(ROOT.glob(".claude/agents/*.md"))
HOOKS: dict[str, list[dict[str, Any]]] = json.loads((ROOT / "hooks" / "hooks.json").read_text())["hooks"]
EVENTS = [(event, group, hook) for event, groups in HOOKS.items() for group in groups for hook in group["hooks"]]
THROUGH_THE_BRIDGE = [(event, hook) for event, _, hook in EVENTS if hook["type"] == "mcp_tool"]
IN_THE_BACKGROUND = [(event, hook) for event, _, hook in EVENTS if hook.get("asyncRewake")]
THROUGH_THE_SCRIPT = [
    (event, hook) for event, _, hook in EVENTS if hook["type"] == "command" and not hook.get("asyncRewake")
]


def load(*parts: str) -> Any:
    return json.loads(ROOT.joinpath(*parts).read_text())


def front_matter(file: Path) -> dict[str, Any]:
    _, head, body = file.read_text().split("---\n", 2)
    assert body.strip()
    fields: dict[str, Any] = yaml.safe_load(head)
    return fields


# -- manifests ------------------------------------------------------------------------------------------------------


def test_plugin_marketplace_and_server_have_one_name_and_the_packages_version() -> None:
    plugin, marketplace = load(".claude-plugin", "plugin.json"), load(".claude-plugin", "marketplace.json")
    assert (plugin["name"], plugin["version"]) == ("corral", __version__)
    assert [(entry["name"], entry["source"]) for entry in marketplace["plugins"]] == [("corral", "./")]
    server = {"command": "/bin/sh", "args": ["${CLAUDE_PLUGIN_ROOT}/bin/corral", "mcp"], "alwaysLoad": True}
    assert load(".mcp.json") == {"mcpServers": {"corral": server}}


def test_a_wheel_takes_no_module_out_of_its_place() -> None:
    """What is forced to another place is left out where it belongs: an installed daemon could not import it."""
    _, table = (ROOT / "pyproject.toml").read_text().split("[tool.hatch.build.targets.wheel.force-include]\n")
    forced = re.findall(r'^"(.+?)" = "corral/_bundle/', table.partition("\n[")[0], re.MULTILINE)
    assert {"hooks", "skills"} < {*forced} and not [source for source in forced if source.startswith("daemon/")]
    assert (ROOT / "hooks" / "last_look.py").samefile(ROOT / "daemon" / "corral" / "client" / "last_look.py")


def test_the_manifest_lists_every_agent_file_by_file_and_repeats_no_default_path() -> None:
    plugin = load(".claude-plugin", "plugin.json")
    offered = [file for file in AGENTS if file.name not in ON_REQUEST]
    assert sorted(plugin["agents"]) == [f"./.claude/agents/{file.name}" for file in offered]
    assert not {"hooks", "skills", "mcpServers", "commands"} & plugin.keys()


def test_no_claude_md_stands_at_the_plugins_root() -> None:
    assert not (ROOT / "CLAUDE.md").exists()


# -- hooks ----------------------------------------------------------------------------------------------------------


def test_every_event_is_handled_once() -> None:
    assert len(THROUGH_THE_BRIDGE + THROUGH_THE_SCRIPT) == len(HOOKS)
    # One event that a client does not know makes it refuse them all: seen with 2.1.197 and PreSkillShellCommand.
    assert set(HOOKS) == {
        *("SessionStart", "SessionEnd", "UserPromptSubmit", "Stop", "StopFailure", "Notification", "PermissionRequest"),
        *("PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "SubagentStart", "SubagentStop"),
    }


def test_events_without_a_bridge_go_through_the_script() -> None:
    assert {event for event, _ in THROUGH_THE_SCRIPT} == {"SessionStart", "SessionEnd"}


@pytest.mark.parametrize(("event", "hook"), THROUGH_THE_SCRIPT)
def test_the_script_is_run_without_a_shell_and_told_its_event(event: str, hook: dict[str, Any]) -> None:
    assert hook["command"] == "python3"
    assert hook["args"] == ["-I", "-S", "${CLAUDE_PLUGIN_ROOT}/hooks/hook.py", event]
    assert hook["timeout"] > 0


def test_a_script_that_is_gone_never_wakes_a_session(tmp_path: Path) -> None:
    """Python exits with 2 where a script is missing, and with 2 a session would be woken at each Stop, for ever."""
    (event, hook), (other, also) = IN_THE_BACKGROUND
    assert ((event, other), hook["command"], hook["timeout"]) == (("Stop", "StopFailure"), "python3", 7 * 24 * 3600)
    assert also == hook
    cached = {path.name for path in (ROOT / "hooks").glob("__pycache__/wait.*")}
    for folder in (tmp_path, ROOT / "hooks"):
        args = [word.replace("${CLAUDE_PLUGIN_ROOT}/hooks", str(folder)) for word in hook["args"]]
        done = subprocess.run([sys.executable, *args], cwd=tmp_path, env={}, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == (1 if folder == tmp_path else 0)
    assert {path.name for path in (ROOT / "hooks").glob("__pycache__/wait.*")} == cached == set()


@pytest.mark.parametrize(("event", "hook"), THROUGH_THE_BRIDGE)
def test_the_bridge_has_the_tool_and_answers_before_the_client_gives_up(event: str, hook: dict[str, Any]) -> None:
    assert hook["server"] == "plugin:corral:corral"
    assert hook["tool"] == HOOK
    assert hook["timeout"] > DEADLINE_S


@pytest.mark.parametrize(("event", "hook"), THROUGH_THE_BRIDGE)
def test_each_field_bears_the_name_that_the_client_gives_it(event: str, hook: dict[str, Any]) -> None:
    def check(fields: dict[str, Any], prefix: str) -> None:
        for name, value in fields.items():
            if isinstance(value, dict):
                check(value, f"{prefix}{name}.")
            elif isinstance(value, list):
                for place, each in enumerate(value):
                    check(each, f"{prefix}{name}.{place}.")
            elif name == "calls":  # how many there are
                assert value == "${tool_calls.length}"
            else:
                assert value == f"${{{prefix}{name}}}"

    check(hook["input"], "")
    assert {"session_id", "cwd", "hook_event_name", "agent_id"} <= hook["input"].keys()


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest"])
def test_a_tool_call_carries_what_it_touches_and_none_of_its_content(event: str) -> None:
    (hook,) = (hook for name, hook in THROUGH_THE_BRIDGE if name == event)
    assert hook["input"].keys() >= {"tool_name", "tool_use_id", "permission_mode"}
    # Of the client's own SendMessage, and of ExitWorktree.
    more = {"PostToolUse": {"to", "summary"}, "PreToolUse": {"action"}}.get(event, set())
    assert hook["input"]["tool_input"].keys() == {"file_path", "notebook_path", "command"} | more


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
def test_every_tool_that_writes_is_matched(event: str) -> None:
    ((_, group, _),) = (entry for entry in EVENTS if entry[0] == event)
    writers = ["Write", "Edit", "MultiEdit", "NotebookEdit", "Bash", "SendMessage"]
    # A worktree is saved before it may go; and our own tools are announced: that tells a subagent's calls from its parent's.
    ours = ["ExitWorktree", "mcp__plugin_corral_corral__.*"] if event == "PreToolUse" else []
    assert group["matcher"].split("|") == writers + ours


def test_the_script_is_short() -> None:
    assert len((ROOT / "hooks" / "hook.py").read_text().splitlines()) <= 150


# -- skills and agents ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", SKILLS, ids=lambda file: file.parent.name)
def test_a_skill_is_short_says_when_and_has_numbered_steps_with_exit_tests(file: Path) -> None:
    fields, text = front_matter(file), file.read_text()
    assert fields.keys() == {"name", "description"}
    assert fields["name"] == file.parent.name
    assert fields["name"] == "task-execution" or fields["name"].split("-")[0].endswith("ing")
    assert fields["description"].startswith("Use when ")
    assert len(text.splitlines()) < 120
    steps = [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)]
    assert steps == list(range(1, len(steps) + 1))
    assert text.count("*Exit test:*") >= len(steps) / 2


@pytest.mark.parametrize("file", AGENTS, ids=lambda file: file.stem)
def test_an_agent_says_when_it_is_to_be_used_and_what_it_may_use(file: Path) -> None:
    fields = front_matter(file)
    assert fields["name"] == file.stem
    assert fields["description"].startswith("Use ")
    assert {"Read", "Bash"} <= set(fields["tools"].split(", "))
    known = {"name", "description", "tools", "model", "isolation", "capabilities"}
    assert fields.keys() - known == (
        {"runner", "runner_model", "command", "runner_env"} if "runner" in fields else set()
    )


def test_whoever_only_judges_or_delegates_has_no_tool_to_edit_with() -> None:
    for name in ("reviewer", "researcher", "orchestrator"):
        tools = set(front_matter(ROOT / ".claude" / "agents" / f"{name}.md")["tools"].split(", "))
        assert not tools & {"Write", "Edit", "NotebookEdit"}


def test_the_opencode_builder_is_named_and_configured_as_prompts_name_it() -> None:
    """Claude Code runs it on a model of its own; whoever starts OpenCode for it takes the runner's."""
    file = ROOT / ".claude" / "agents" / "OpenCode-Builder.md"
    fields, text = front_matter(file), file.read_text()
    assert (fields["name"], fields["isolation"], fields["model"]) == ("OpenCode-Builder", "worktree", "sonnet")
    assert (fields["runner"], fields["runner_model"]) == ("opencode", "google/gemini-3-flash")
    logs = ["--print-logs", "--log-level", "ERROR"]
    assert fields["command"] == ["opencode", "run", "--model", "{model}", "--auto", *logs]
    configured = json.loads(fields["runner_env"]["OPENCODE_CONFIG_CONTENT"])
    assert configured["permission"] == {"external_directory": {"{env:CORRAL_PROJECT}/*": "deny"}}
    assert "opencode run --model google/gemini-3-flash --auto" in text.split("---\n", 2)[2]
    assert "`/task-execution`" in text and "isolated worktree" in text
    batch = (ROOT / "skills" / "delegating-a-batch" / "SKILL.md").read_text()
    assert 'or, where it is there, `"OpenCode-Builder"`, all calls in the same message' in batch


@pytest.mark.parametrize("file", SKILLS, ids=lambda file: file.parent.name)
def test_a_skill_is_brief_and_leaves_it_to_corral_to_report(file: Path) -> None:
    text = file.read_text()
    assert len(text.splitlines()) <= 60
    if file.parent.name != "reserving-files":
        assert re.search(r"Corral( itself)? (sends|reports) |Corral itself sends", text)


def test_the_implementer_works_isolated_by_the_task_execution_skill_and_a_batch_goes_out_in_one_response() -> None:
    implementer = ROOT / ".claude" / "agents" / "implementer.md"
    assert front_matter(implementer)["isolation"] == "worktree"
    assert "`/task-execution`" in implementer.read_text()
    batch = (ROOT / "skills" / "delegating-a-batch" / "SKILL.md").read_text()
    assert "all of them over in one response" in batch
    assert "`/task-execution`" in batch


@pytest.mark.parametrize("file", SKILLS + AGENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_skill_or_agent_that_is_named_exists(file: Path) -> None:
    skills, agents = {file.parent.name for file in SKILLS}, {file.stem for file in AGENTS}
    for name in re.findall(r"corral:([a-z-]+)", file.read_text()):
        assert name in skills | agents


def test_the_mod_finds_the_file_of_an_edit_by_the_same_parameters_as_the_last_look() -> None:
    (listed,) = re.findall(r"const PATHS = \[([^\]]*)\]", (ROOT / "hooks" / "guard.js").read_text())
    assert re.findall(r"'(\w+)'", listed) == [*last_look.PATHS_OF_SERVERS]
