"""Every command that prints JSON, run against a real daemon in a repository of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from corral.faces.cli.app import run as corral
from corral.faces.cli.terminal.context import Common
from tests.conftest import commit, git
from tests.integration.templates.repositories import release, template
from tests.support.coordinated import Coordinated, eventually
from tests.support.service_manager import Manager

Answer = tuple[str, Any]
CONFIG = """
supervisor: {max_agents: 2}
tasks: {max_retries: 0}
worktrees: {pool_min_files: 0}
"""


class Story:
    """Runs commands in this process, in a repository.

    Args:
        root: An initialised repository.
    """

    def __init__(self, root: Path) -> None:
        self.house = Coordinated(root)
        self.answers: list[Answer] = []

    def __call__(self, command: str, *args: str, typed_in: str = "", **env: str) -> Any:
        """Run a command with a text as its standard input; returns what it prints, which is kept."""
        answer = self.look(command, *args, typed_in=typed_in, **env)
        self.answers.append((command, answer))
        return answer

    def look(self, command: str, *args: str, typed_in: str = "", **env: str) -> Any:
        """Run a command; returns what it prints."""
        Common.directory, Common.output = "", None
        typed, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(typed_in.encode()))
        out, err, before, folder = io.StringIO(), io.StringIO(), dict(os.environ), Path.cwd()
        os.environ.update(env)
        os.chdir(self.house.root)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                corral([*command.split(), *args, "--json"])
        finally:
            sys.stdin = typed
            os.chdir(folder)
            for name in env:
                os.environ.pop(name)
                os.environ.update({name: before[name]} if name in before else {})
        assert out.getvalue(), (command, args, err.getvalue())
        return json.loads(out.getvalue())


def play(root: Path) -> list[Answer]:
    """Run every command at least once in a repository with one commit; returns each with its answer."""
    story = Story(root)
    story("init", "--yes", "--no-check", "--verify", "true", "--no-copies")
    with (root / ".corral" / "config.yaml").open("a") as file:
        file.write(re.sub(r"(?m)^supervisor.*\n", "", CONFIG))
        file.write(f"runners: {{claude: {{command: {_client(root.parent)}}}}}\n")
    (root / ".corral" / "teams.yaml").write_text(
        "agents:\n- {name: Boulder, role: developer, capabilities: [python], runner: claude, model: m, description: Builds}\n"
    )
    story("trust", "--yes")
    story("daemon start")
    try:
        for part in (_about_the_program, _alerts, _talk, _share, _work, _land, _in_steps, _repeat, _about_agents, _end):
            part(story)
    finally:
        story.house.stop()
    return story.answers


def _about_agents(story: Story) -> None:
    definition = story.house.root / ".claude" / "agents" / "scribe.md"
    definition.parent.mkdir(parents=True, exist_ok=True)
    front = "name: scribe\ndescription: Writes.\nrunner: note\ncommand: [sh, -c, 'echo note > note.txt']"
    definition.write_text(f"---\n{front}\n---\n\nWrite it down.\n")
    story.house.trust()
    noted = story("task submit", "--title", "Note", "--agent", "scribe", "--prompt", "Note it.")["task_id"]
    story("wait", noted)
    story("task feedback", noted, "--rating", "4", "--comment", "Short.")
    story("agent stats", "--by", "version")
    definition.write_text(f"---\n{front}\nversion: 2.0.0\n---\n\nWrite all of it down.\n")
    story("agent versions", "scribe")
    story("agent show", "scribe", "--version", "1.0.0")
    story("agent diff", "scribe", "1.0.0", "2.0.0")
    story.look("pause")
    story.look("config set-key", "--file", typed_in="sk-ant-api03-0123456789-abcdefghij")
    story("agent improve", "scribe")
    (asked,) = eventually(lambda: [row for row in story.look("task list") if row["title"].startswith("Propose")])
    story.look("config remove-key")
    story.look("task cancel", asked["task_id"])  # with it the improvement ends, and asks nobody
    story.look("resume")
    story("agent pin", "scribe", "1.0.0")
    story("agent pin", "scribe", "--unpin")
    story("agent rollout", "scribe", "--to", "1.0.0", "--share", "20%")
    story("agent rollout", "stop", "scribe")
    definition.write_text(f"---\n{front}\n---\n\nWrite it down.\n")
    story("agent rollback", "scribe", "1.0.0")


def _about_the_program(story: Story) -> None:
    for command in (
        "plugin path", "daemon status", "daemon logs", "config show", "config validate", "team validate", "team list",
        "agent list", "doctor",
    ):  # fmt: skip
        story(command)
    local = story.house.root / ".corral" / "local.yaml"
    for text in ("locks: {ttl_s: -1}\n", "locks: {ttl: 5}\n"):
        local.write_text(text)
        story("config validate")
    eventually(lambda: story.look("config show")["warnings"])
    story("config show")
    story("status")
    local.unlink()
    story("agent show", "implementer")
    story("agent show", "Boulder")
    story("schema")
    story("man", "task", "submit")
    for command in ("config profiles", "alias list"):
        story(command)
    story("alias set", "mine", "task list --status $1")
    story("alias list")
    story("alias remove", "mine")
    story("config set", "supervisor.stop_grace_s", "4")
    story("config get", "supervisor.stop_grace_s")
    story("config explain", "supervisor.stop_grace_s")
    story("config unset", "supervisor.stop_grace_s")
    story("config edit", EDITOR="true", VISUAL="")
    story("config key-status")
    story("config set-key", "--file", typed_in="sk-ant-api03-0123456789-abcdefghij")
    story("config key-status")
    story("config remove-key")
    story("web")
    _templates(story)
    for command in ("guard install", "guard status", "guard check", "guard allow", "guard remove"):
        story(command)
    story("pause", "--reason", "a test")
    story("status")
    story("resume")
    story("resume")


def _templates(story: Story) -> None:
    folder = story.house.root / ".corral" / "templates"
    folder.mkdir()
    (folder / "page.yaml").write_text(
        "name: page\ndescription: Write it.\nparameters: {NAME: {default: x, choices: [x, y]}, LINES: {type: integer}}\n"
        "title: '{{ NAME }}'\nprompt: Write {{ NAME }}.\nclaims: [a]\ncapabilities: [b]\nlimits: {timeout_s: 5}\n"
    )
    story("template list")
    story("template show", "page")
    (folder / "bad.yaml").write_text("name: good\ncommand: 'true'\n")
    story("template list")
    story("template validate")
    (folder / "bad.yaml").write_text("name: bad\ncommand: 'true'\n")
    story("template show", "bad")
    story("template validate")
    _project_template(story)


def _project_template(story: Story) -> None:
    """Another repository, prepared from a template in a third."""
    top = story.house.root.parent
    source = template(top / "template")
    other = story.house.root.parent / "prepared"
    other.mkdir()
    git(other, "init", "-q")
    commit(other, {"README.md": "Other.\n"})
    story("init", str(other), "--template", str(source), "--yes")
    inside, agent = Story(other), other / ".claude" / "agents" / "reviewer.md"
    for state in ("unchanged", "changed", "missing"):
        if state == "changed":
            agent.write_text("mine\n")
        if state == "missing":
            agent.unlink()
        inside("template diff")
        inside("template verify")
    release(source, "v1.1.0", {".corral/templates/page.yaml": "name: page\nprompt: Write.\n"})
    for option in ("--dry-run", "--yes", "--yes", "--rollback"):
        inside("template update", option)
    story.answers += inside.answers
    story("template cache")
    story("template cache", "--clear")


def _alerts(story: Story) -> None:
    local = story.house.root / ".corral" / "local.yaml"
    local.write_text("alerts: {free_disk: {mb: 1000000000}}\n")
    (alert,) = eventually(lambda: story.look("alert list"))
    story("alert list")
    story("status")
    story("alert ack", alert["alert_id"])
    story("alert test")
    local.unlink()
    eventually(lambda: not story.look("alert list"))
    story("alert list", "--all")
    story("config set-key", "--webhook", "--file", typed_in="whsec-0123456789")
    story("config remove-key", "--webhook")


def _talk(story: Story) -> None:
    ada = story("session register", "--name", "Ada", "--capability", "python", "--program", "sh", "--task", "Look")
    bob = story("session register", "--name", "Bob")
    mine = {"CORRAL_SESSION_ID": ada["session_id"]}
    theirs = {"CORRAL_SESSION_ID": bob["session_id"]}
    story("session heartbeat", **mine)
    story("session name", "Ada", "Adele", "--program", "sh")
    sent = story("message send", "Bob", "Hello", "Some text", "--ack", "--attach", "README.md", **mine)
    story("message reply", str(sent["id"]), "Yes.", **theirs)
    for command in ("message inbox", "message inbox --unread", "message contacts"):
        story(command, **theirs)
    story("message show", str(sent["id"]))
    story("message thread", str(sent["id"]))
    story("message read", str(sent["id"]), **theirs)
    story("message ack", str(sent["id"]), **theirs)
    story("message search", "text")
    noted = story("handoff write", "Half done", "--done", "this", "--next", "that", "--file", "README.md", **mine)
    story("handoff show", noted["handoff_id"])
    story("handoff list")
    story(
        "memory add", "The tests are slow.", "--tag", "tests", "--lesson", "Run few.", "--details", '{"a": 1}', **mine
    )
    story("memory search", "tests")
    story("memory list")
    story.house.hook("SessionStart", "c-1", source="startup")
    story("session show", "c-1")
    story("session show", "Ada")
    story("session list")


def _share(story: Story) -> None:
    (ada,) = (row for row in story.look("session list") if row["agent_name"] == "Ada")
    mine = {"CORRAL_SESSION_ID": ada["session_id"]}
    story("lock acquire", "src/a.py", "src/b.py", "--reason", "renaming", **mine)
    story("lock acquire", "src/a.py", "src/c.py", "--each")
    story("lock check", "src/a.py", "src/z.py")
    story("lock list")
    story("lock renew", "--all", **mine)
    story("lock release", "src/b.py", **mine)
    story("lock force-release", "src/a.py", "--yes", "--note", "sorry")
    story("feature register", "FEAT-1", "--claim", "src/**", "--title", "Search", "--metadata", '{"a": 1}', **mine)
    story("feature register", "FEAT-2", "--claim", "docs/**")
    story("feature list")
    story("feature show", "FEAT-1")
    story("feature analyze", "--claim", "src/a.py")
    story("feature analyze", "--claim", "other/**")
    story("feature deregister", "FEAT-1")
    story("feature show", "FEAT-1")
    story("session end", "Ada")
    story("session list")
    story("session show", "Ada")
    story("session cleanup")


def _work(story: Story) -> None:
    batch = story.house.root.parent / "batch.yaml"
    batch.write_text("- {title: Wait for a session, description: Look.}\n- {title: Another, description: Look too.}\n")
    queued = story("task batch-submit", "--file", str(batch))["task_ids"]
    claimed = story("task claim")["task_id"]
    story("state set", claimed, "schema", '{"version": 1}')
    story("state get", claimed, "schema")
    story("state list", claimed)
    story("task detail", claimed)
    story("state delete", claimed, "schema")
    story("task complete", claimed, "--result", '{"done": true}')
    (left,) = (task_id for task_id in queued if task_id != claimed)
    story("task reprioritize", left, "9")
    story("task cancel", left, "--reason", "not needed")
    story("task claim")
    failing = story("task submit", "--title", "Fail", "--command", "echo no; exit 3")["task_id"]
    story("wait", failing)
    story("task dlq list")
    eventually(lambda: story.look("task dlq show", failing)["worktree"] is None)  # given back a moment later
    story("task dlq show", failing)
    story("task dlq retry", failing)
    story("wait", failing)
    story("task logs", failing)
    story("task dlq clear", failing)
    story("task retry", failing)
    story("wait", failing)
    story("task dlq clear", "--yes")
    long = story("task submit", "--title", "Long", "--command", "sleep 600", "--metadata", '{"a": 1}')["task_id"]
    eventually(lambda: story.look("swarm status")["agents"])
    story("task diff", long)
    story("swarm status")
    story("metrics", "--by", "agent")
    story.house.await_audit()
    story("audit", "--limit", "1000")
    story("audit", "--verify")
    story("gc", "--dry-run")
    story("gc")
    story("task list")
    story("wait", long, "--timeout", "0")
    story("agent kill", long)
    story("task list")
    story("task detail", long)
    _converse(story)
    roadmap = story.house.root / ".corral" / "state" / "roadmap.yaml"
    roadmap.parent.mkdir(exist_ok=True)
    roadmap.write_text(
        "tasks:\n- {id: A, title: First, command: 'true', dependencies: [B]}\n"
        "- {id: B, title: Second, command: 'true'}\n- {id: C, title: Third, priority: soon}\n"
    )
    for command in ("supervisor status", "supervisor once", "supervisor start", "supervisor status", "supervisor stop"):
        story(command)


def _client(folder: Path) -> Path:
    """A program in place of the Claude Code client, whose turn ends at once."""
    client = folder / "client"
    client.write_text("""#!/bin/sh\necho '{"type": "result", "result": "Done.", "num_turns": 1}'\n""")
    client.chmod(0o755)
    return client


def _converse(story: Story) -> None:
    task = story.look("task submit", "--title", "Ask", "--prompt", "Do it.")["task_id"]
    story.look("wait", task)
    story("attach", task)
    story("task detail", task)


def _in_steps(story: Story) -> None:
    folder = story.house.root / ".corral" / "templates"
    folder.mkdir(exist_ok=True)
    steps = "- {name: write, for_each: [a, b], command: 'true'}\n- {name: sum, wait_for: [write], command: 'true'}"
    (folder / "both.yaml").write_text(f"name: both\nsteps:\n{steps}\n")
    story("template show", "both")
    whole = story("task submit", "--template", "both")["task_id"]
    story("wait", whole)
    story("task detail", whole)


def _repeat(story: Story) -> None:
    work = ("--command", "echo $CORRAL_ITERATION > tried.txt", "--max-iterations", "2")
    number = ("--threshold", "cat tried.txt", "--target", ">=9", "--condition", "exit 0")
    story("pause")  # a loop that has not begun has no target yet
    loop = story("loop start", *work, "--test", "test $(cat tried.txt) = 9", *number)["task_id"]
    assert story("loop status", loop)["target"] is story("loop list")[0]["target"] is None
    story("resume")
    story("wait", loop)
    story("loop history", loop)
    story("loop status", loop)
    story("loop diff", loop, "--from", "1")
    story("loop list")
    story("loop resume", loop, "--max-iterations", "100")
    story("loop stop", loop)
    eventually(lambda: story.look("loop status", loop)["status"] == "cancelled")
    handed_in = story("loop land", loop, "--iteration", "2")["merge_id"]
    story("merge cancel", handed_in)


def _land(story: Story) -> None:
    task = story("task submit", "--title", "Say hello", "--command", "echo hello > hello.txt; echo said")["task_id"]
    story("wait", task)
    (landed,) = story("merge list")
    story("task detail", task)
    story("merge verify-receipt", story("merge detail", landed["merge_id"])["landed_sha"])
    story("merge log", landed["merge_id"])
    story("merge runs", landed["merge_id"])
    story("merge graph")
    story("merge flakes")
    story("merge diff", landed["merge_id"])
    story("task diff", task)
    story("task diff", task, "--stat")
    asking = story("task submit", "--title", "Instruct", "--command", "echo x > CLAUDE.md")["task_id"]
    held = eventually(lambda: story.look("merge list", "--state", "held"))[0]["merge_id"]
    story("merge list")
    story("merge detail", held)
    story("status")
    story("merge cancel", held)
    story("merge retry", held)
    eventually(lambda: story.look("merge list", "--state", "held"))
    story("merge approve", held, "--yes")
    story("wait", asking)
    folders = {name: Path(story("worktree create", name)["path"]) for name in ("side", "other")}
    for name, folder in folders.items():
        (folder / "README.md").write_text(name)
        _git(folder, "commit", "-qam", name)
        submitted = story("merge submit", f"corral/{name}")["merge_id"]
        story("wait", "--all")
    story("merge detail", submitted)
    story.look("worktree remove", story("merge open", submitted)["name"])
    story("merge dismiss", submitted)
    story("merge freeze", "main", "--reason", "A release.")
    undone = story("merge revert", landed["merge_id"])["merge_id"]
    more = Path(story.look("worktree create", "more")["path"])
    (more / "more.txt").write_text("more")
    _git(more, "add", "more.txt")
    _git(more, "commit", "-qm", "more")
    story("merge skip", story.look("merge submit", "corral/more")["merge_id"])
    story("merge bypass", undone, "--reason", "It is urgent.", "--yes")
    story("merge thaw", "main")
    story("wait", "--all")
    story("merge detail", undone)
    _git(story.house.root, "reset", "-q", "--hard", "HEAD~1")
    eventually(lambda: any(need["kind"] == "rewound_target" for need in story.look("status")["needs_you"]))
    story("status")
    story("merge accept-rewind", "main", "--yes")
    _git(story.house.root, "reset", "-q", "--hard", "ORIG_HEAD")
    story("worktree list")
    story("worktree pool")
    (folders["other"] / "new.txt").write_text("new")
    story("worktree remove", "other")
    story("worktree recover")
    story("worktree recover", "other")
    story("status")


def _end(story: Story) -> None:
    root = story.house.root
    for row in story.look("worktree list"):
        if row["state"] == "active":
            story.look("worktree remove", row["name"])
    story("daemon restart")
    manager = Manager(story.house.root.parent / "manager")
    with_manager = {"PATH": f"{manager.folder}:{os.environ['PATH']}"}
    story("daemon install", "--yes", **with_manager)
    story("daemon uninstall", **with_manager)
    story.look("daemon start")
    story("daemon stop")
    story("daemon status")
    backup = root.parent / "backup.db"
    backup.write_bytes((root / ".corral" / "corral.db").read_bytes())
    story("daemon adopt", str(backup), "--yes")
    story("trust", "--revoke")
    story.look("daemon start")
    story("uninstall", "--yes")


def _git(folder: Path, *args: str) -> None:
    identity = ("-c", "user.name=A Tester", "-c", "user.email=tester@example.test")
    subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True)


def make_repository(root: Path) -> None:
    """A repository with one commit, and an identity."""
    root.mkdir(parents=True)
    _git(root, "init", "-q", "-b", "main")
    (root / "README.md").write_text("hello\n")
    _git(root, "add", ".")
    _git(root, "commit", "-q", "-m", "first")
    for key, value in (("user.name", "A Tester"), ("user.email", "tester@example.test")):
        _git(root, "config", key, value)
