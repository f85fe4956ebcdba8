"""Tasks that name their agent, or what one must be capable of, with the real daemon and programs that stand in for a client."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import CorralError, InvalidInput
from corral.git.land.landing import RESTS
from tests.conftest import git, worktrees_of
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import put

RECORDER = """\
#!/bin/sh
# Says what it was started with, does its task, and commits a part of it.
{ printf '%s\\n' "$@"; } > argv.txt
cat > prompt.txt
pwd > where.txt
printf '%s' "$OPENCODE_CONFIG_CONTENT$MORE$CORRAL_PROJECT" > env.txt
git add argv.txt && git commit -q -m "Half of it"
"""


def executable(file: Path, text: str = RECORDER) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is on the PATH of the daemon."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.fixture
def home(programs: Path, house: Coordinated) -> Coordinated:
    """A coordinated repository whose daemon has that PATH, and the agent that a person has to ask for."""
    house.run("init", "--yes", "--with-opencode")
    return house


def define(home: Coordinated, name: str, front: str, body: str = "Do it well.") -> Path:
    file = put(
        home.root / ".claude" / "agents" / f"{name}.md",
        f"---\nname: {name}\ndescription: Use it.\n{front}\n---\n\n{body}\n",
    )
    home.trust()
    return file


def team(home: Coordinated, text: str, *names: str) -> None:
    (home.root / ".corral" / "teams.yaml").write_text(text)
    eventually(lambda: [agent["name"] for agent in home.ask("GET", "/teams")["agents"]] == list(names))


def submit(home: Coordinated, **fields: Any) -> str:
    return str(home.ask("POST", "/tasks", {"title": "Part 7", **fields})["task_id"])


def detail(home: Coordinated, task_id: str) -> dict[str, Any]:
    task: dict[str, Any] = home.ask("GET", f"/tasks/{task_id}/detail")
    return task


def ended(home: Coordinated, task_id: str) -> dict[str, Any]:
    """The task, once it and what became of its merge are settled."""

    def settled() -> dict[str, Any] | None:
        shown = detail(home, task_id)
        merge = shown["merge"] or {"state": None, "reason": None}
        merging = merge["state"] in ("queued", "verifying") or RESTS in str(merge["reason"])
        return None if shown["status"] in ("waiting", "pending", "running") or merging else shown

    shown: dict[str, Any] = eventually(settled)
    return shown


def refusal(home: Coordinated, **fields: Any) -> CorralError:
    with pytest.raises(CorralError) as refused:
        submit(home, **fields)
    return refused.value


def landed(home: Coordinated, task_id: str) -> dict[str, str]:
    """What the program of an agent has said about itself, as it is on the target branch."""
    shown = ended(home, task_id)
    assert (shown["status"], (shown["merge"] or {}).get("state")) == ("completed", "landed"), shown
    return {name: git(home.root, "show", f"main:{name}.txt") for name in ("argv", "prompt", "where", "env")}


def assigned(home: Coordinated, task_id: str) -> list[dict[str, Any]]:
    return [event["data"] for event in detail(home, task_id)["history"] if event["kind"] == "task.assigned"]


@pytest.mark.req("DELEGATE-1")
def test_the_opencode_builder_has_opencode_do_the_task_in_a_worktree_of_its_own(
    home: Coordinated, programs: Path
) -> None:
    executable(programs / "opencode")
    words = ("--agent", "OpenCode-Builder", "--prompt", "--model $(touch /tmp/x) `id`; rename the header")
    task_id = str(home.json("task", "submit", "--title", "Part 7", *words)["task_id"])
    seen = landed(home, task_id)
    assert seen["argv"] == "run --model google/gemini-3-flash --auto --print-logs --log-level ERROR".replace(" ", "\n")
    assert '"{env:CORRAL_PROJECT}/*": "deny"' in seen["env"] and seen["env"].endswith(str(home.root))
    assert seen["prompt"].endswith("\n--model $(touch /tmp/x) `id`; rename the header")
    assert "`/task-execution`" in seen["prompt"] and "isolated worktree" in seen["prompt"]
    assert "work on one task of a batch" in seen["prompt"]
    assert Path(seen["where"]).parent == worktrees_of(home.root)
    shown = detail(home, task_id)
    assert (shown["agent"], shown["runner"]) == ("OpenCode-Builder", "command")
    assert assigned(home, task_id) == [
        {"agent": "OpenCode-Builder", "runner": "opencode", "model": "google/gemini-3-flash"}
    ]
    assert "agent     OpenCode-Builder" in home.run("task", "detail", task_id).stdout


@pytest.mark.req("DELEGATE-1")
def test_without_opencode_a_task_for_it_is_refused_and_one_that_was_queued_fails_once(
    home: Coordinated, programs: Path
) -> None:
    refused = home.run("task", "submit", "--title", "x", "--agent", "opencode-builder", "--prompt", "y", check=False)
    assert refused.returncode == 1 and "Install opencode" in refused.stderr and "'opencode'" in refused.stderr
    assert home.ask("GET", "/tasks") == []
    program = executable(programs / "opencode")
    gate = programs / "gate"
    first = submit(home, command=f"while ! [ -e {gate} ]; do sleep 0.05; done")
    second = submit(home, agent="OpenCode-Builder", prompt="y", wait_for=[first])
    program.unlink()
    gate.touch()
    shown = ended(home, second)
    assert (shown["status"], shown["error_code"], shown["attempts"]) == ("failed", "runner_unavailable", 1)
    assert "'opencode' was not found" in shown["error_message"]
    executable(program)
    home.ask("POST", f"/tasks/{second}/retry")
    assert landed(home, second)["argv"]


def test_an_unknown_agent_is_refused_with_the_names_that_exist(home: Coordinated, programs: Path) -> None:
    executable(programs / "scribe")
    define(home, "scribe", "runner: scribe\ncommand: [scribe]")
    team(home, "agents: [{name: Boulder, role: builder, capabilities: [], description: Does it.}]", "Boulder")
    refused = home.run("task", "submit", "--title", "x", "--agent", "../scribe", "--prompt", "y", check=False)
    assert refused.returncode == 2
    assert (
        "Boulder, OpenCode-Builder, scribe, implementer, orchestrator, researcher, resolver, reviewer" in refused.stderr
    )
    batch = {"tasks": [{"title": "a", "command": "true"}, {"title": "b", "agent": "No"}]}
    with pytest.raises(InvalidInput) as several:
        home.ask("POST", "/tasks/batch", batch)
    assert [(error["index"], error["field"]) for error in several.value.details["errors"]] == [(1, "agent")]
    assert home.ask("GET", "/tasks") == []
    ids: list[str] = []

    async def scene(agent: Agent) -> None:
        answer = await agent.call("submit_work", task_type="build", description="x", agent="Nobody")
        assert answer["success"] is False and "There is no agent 'Nobody'" in json.dumps(answer)
        answer = await agent.call("submit_work", task_type="build", description="Write it.", agent="scribe")
        ids.append(answer["task_id"])

    play(home, scene)
    assert landed(home, ids[0])["prompt"].endswith("\n\nWrite it.")


def test_a_definition_is_read_when_the_attempt_starts_and_one_that_is_gone_or_broken_fails_it_once(
    home: Coordinated, programs: Path
) -> None:
    executable(programs / "mine")
    front = "runner: mine\nrunner_model: m1\ncommand: [mine, --with, '{model}', 'a b; c']"
    front += "\nrunner_env: {MORE: 'm1 $HOME ', CORRAL_PROJECT: x}"
    files = {name: define(home, name, front) for name in ("one", "two", "three")}
    gate = programs / "gate"
    hold = submit(home, command=f"while ! [ -e {gate} ]; do sleep 0.05; done")
    one, two, three = (submit(home, agent=name, description=f"# For {name}", wait_for=[hold]) for name in files)
    define(home, "one", front.replace("m1", "m2"), "Do it better.")
    files["two"].unlink()
    files["three"].write_text("---\nname: three\ncommand: mine\n---\n")
    gate.touch()
    seen = landed(home, one)
    assert seen["argv"].split("\n") == ["--with", "m2", "a b; c"]
    assert seen["env"] == f"m2 $HOME {home.root}"
    assert seen["prompt"].endswith("Do it better.\n\n# For one")
    gone, broken = ended(home, two), ended(home, three)
    assert (gone["status"], gone["error_code"], gone["attempts"]) == ("failed", "not_found", 1)
    assert "There is no agent 'two'; there are: OpenCode-Builder, one, three, implementer" in gone["error_message"]
    assert (broken["status"], broken["error_code"], broken["attempts"]) == ("failed", "config_invalid", 1)
    assert "description: is required" in broken["error_message"]
    define(home, "three", front)
    home.ask("POST", f"/tasks/{three}/retry")
    assert landed(home, three)["argv"]


@pytest.mark.req("TEAM-1")
def test_what_the_team_says_of_a_member_counts_for_its_tasks(home: Coordinated, programs: Path) -> None:
    executable(programs / "opencode")
    text = """\
agents:
  - {name: Sisyphus, role: coordinator, capabilities: [planning], description: Hands out the work.}
  - name: Boulder
    role: builder
    capabilities: [python]
    description: Does it.
    runner: opencode
    model: other/model
    instructions: Speak of nothing but stones.
"""
    team(home, text, "Sisyphus", "Boulder")
    long = "x" * 200_000  # no argument of a program can be so long
    task_id = submit(home, agent="boulder", prompt=long)
    seen = landed(home, task_id)
    assert seen["argv"].split("\n")[:3] == ["run", "--model", "other/model"]
    assert seen["prompt"].endswith(f"\n\nSpeak of nothing but stones.\n\n{long}")
    (worker,) = [row for row in home.ask("GET", "/sessions") if row["task_id"] == task_id]
    assert (worker["capabilities"], worker["agent_type"]) == (["python"], "command")


def require(*capabilities: str) -> dict[str, Any]:
    return {"agent_requirements": {"capabilities": list(capabilities)}}


@pytest.mark.req("TEAM-1", "FR-SWARM-002")
def test_a_task_that_requires_something_goes_to_the_first_of_the_team_who_is_capable_and_can_start(
    home: Coordinated, programs: Path
) -> None:
    for name in ("mason", "smith"):
        executable(programs / name)
        define(home, name, f"runner: {name}\ncommand: [{name}, as, {name}]")
    define(home, "away", "runner: away\ncommand: [not-installed]")
    text = """\
agents:
  - {name: Talker, role: r, capabilities: [iron, stone], description: Has no runner.}
  - {name: Gone, role: r, capabilities: [iron, stone], description: Cannot start., runner: away}
  - {name: Mason, role: r, capabilities: [stone], description: Stone., runner: mason}
  - {name: Smith, role: r, capabilities: [iron, stone], description: Both., runner: smith}
"""
    team(home, text, "Talker", "Gone", "Mason", "Smith")

    def task(*required: str) -> dict[str, Any]:
        return {"title": "t", "prompt": "p", **require(*required)}

    ids = home.ask("POST", "/tasks/batch", {"tasks": [task("stone"), task("iron"), task("stone", "iron")]})["task_ids"]
    assert [[data["agent"] for data in assigned(home, task_id)] for task_id in ids if ended(home, task_id)] == [
        ["Mason"], ["Smith"], ["Smith"],
    ]  # fmt: skip
    assert "agent     Mason" in home.run("task", "detail", ids[0]).stdout
    assert "is capable of wood" in refusal(home, **task("wood")).message
    assert "Mason is not capable of iron, but of stone" in refusal(home, **task("iron"), agent="Mason").message
    assert "is capable of wood" in refusal(home, command="true", **require("wood")).message
    assert ended(home, submit(home, command="true", **require("stone")))["status"] == "completed"


TWINS = """\
agents:
  - {name: Mason, role: r, capabilities: [stone], description: Stone., runner: mason}
  - {name: Smith, role: r, capabilities: [stone], description: Stone too., runner: mason}
"""


@pytest.mark.req("FR-SWARM-002")
def test_agents_that_are_capable_of_the_same_share_the_tasks(home: Coordinated, programs: Path) -> None:
    executable(programs / "mason", "#!/bin/sh\nwhile ! [ -e $CORRAL_PROJECT/go ]; do sleep 0.05; done\n")
    define(home, "mason", "runner: mason\ncommand: [mason]")
    team(home, TWINS, "Mason", "Smith")
    tasks = [{"title": f"t{number}", "prompt": "p", **require("stone")} for number in range(6)]
    ids = home.ask("POST", "/tasks/batch", {"tasks": tasks})["task_ids"]
    names = [eventually(partial(assigned, home, task_id))[0]["agent"] for task_id in ids]
    assert sorted(names) == ["Mason"] * 3 + ["Smith"] * 3
    (home.root / "go").touch()
    assert {ended(home, task_id)["status"] for task_id in ids} == {"completed"}


@pytest.mark.req("FR-SWARM-002", "SUP-FR5")
def test_a_task_that_nobody_is_capable_of_is_refused_or_waits_for_somebody_and_for_a_person(
    home: Coordinated, programs: Path
) -> None:
    words = ("task", "submit", "--title", "Old code", "--prompt", "Port it.", "--requires")
    refused = home.run(*words, "cobol", check=False)
    assert refused.returncode == 2 and "Nobody here is capable of cobol. There are: " in refused.stderr
    assert "researcher (research)" in refused.stderr and home.ask("GET", "/tasks") == []

    executable(programs / "mason")
    define(home, "mason", "runner: mason\ncommand: [mason]")
    home.run("pause")
    team(home, TWINS, "Mason", "Smith")
    task_id = home.json(*words, "stone")["task_id"]
    team(home, TWINS.replace("stone", "wood"), "Mason", "Smith")
    eventually(lambda: home.ask("GET", "/teams")["agents"][0]["capabilities"] == ["wood"])
    home.run("resume")

    def need() -> dict[str, Any] | None:
        needs = [need for need in home.json("status")["needs_you"] if need["kind"] == "nobody_capable"]
        return needs[0] if needs else None

    held = eventually(need)
    assert "'Old code' waits: Nobody here is capable of stone." in held["what"] and held["ids"] == {"task_id": task_id}
    assert detail(home, task_id)["status"] == "pending" and "capable of stone" in detail(home, task_id)["delay"]
    team(home, TWINS, "Mason", "Smith")
    assert ended(home, task_id)["status"] == "completed" and need() is None
    offered = submit(home, description="For a session.", **require("cobol"))
    assert "'Part 7' waits: No session and no agent here is capable of cobol." in eventually(need)["what"]
    home.run("task", "cancel", offered)
    assert need() is None


def test_what_the_task_says_itself_wins(home: Coordinated, programs: Path) -> None:
    define(home, "mine", "runner: mine\ncommand: [mine]")
    task_id = submit(home, agent="mine", command="echo by hand > argv.txt")
    assert ended(home, task_id)["status"] == "completed"
    assert git(home.root, "show", "main:argv.txt") == "by hand"
    assert "has no command of its own" in refusal(home, agent="implementer", runner="command", prompt="y").message


@pytest.mark.req("SUP-FR5")
def test_a_definition_with_an_unknown_runner_is_told_of_wherever_it_counts(home: Coordinated, programs: Path) -> None:
    define(home, "odd", "runner: openhands\ncapabilities: [odd]")
    reason = "there is no runner 'openhands': use claude or anthropic"
    (odd,) = (row for row in home.json("agent", "list") if row["name"] == "odd")
    assert reason in odd["problem"] and "odd cannot start here: " in home.run("agent", "list").stdout
    assert reason in home.run("agent", "show", "odd").stdout
    assert reason in refusal(home, agent="odd", prompt="p").message
    checked = home.run("doctor", "--json", check=False)
    (check,) = (check for check in json.loads(checked.stdout) if reason in check["message"])
    assert (check["check"], check["status"]) == ("agents", "error") and check["message"].startswith(
        "odd cannot start here"
    )
    assert checked.returncode == 1


@pytest.mark.req("SUP-FR5")
def test_a_programs_attempt_has_the_limits_of_its_definition_and_a_tasks_own_win(
    home: Coordinated, programs: Path
) -> None:
    executable(programs / "idle", "#!/bin/sh\nexec sleep 60\n")
    define(home, "idle", "runner: idle\ncommand: [idle]\nlimits: {timeout_s: 0.4}")
    shown = home.run("agent", "show", "idle").stdout
    assert "  limits      timeout_s 0.4\n" in shown and "  tools       all of its runner\n" in shown
    slow = ended(home, submit(home, agent="idle", prompt="p", max_retries=0))
    assert "timed out after 0.4 s" in slow["error_message"]
    own = ended(home, submit(home, agent="idle", prompt="p", max_retries=0, timeout_s=0.8))
    assert "timed out after 0.8 s" in own["error_message"]


@pytest.mark.req("SUP-FR5")
def test_a_task_for_sessions_says_which_capability_it_waits_for(home: Coordinated, programs: Path) -> None:
    made = home.json("task", "submit", "--title", "x", "--description", "y", "--requires", "sql", "--requires", "go")
    delay = home.json("task", "detail", made["task_id"])["delay"]
    assert "it waits until a session that is capable of sql, go takes it" in delay
