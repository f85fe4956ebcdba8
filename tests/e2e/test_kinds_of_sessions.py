"""The client's other kinds of session are guarded as the plain ones are: background sessions, Code Mode, teammates."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.client import WORKER_FLAGS, Terminal, run_client, trust
from tests.e2e.first_party import first_party
from tests.e2e.stage import script, text, tool
from tests.e2e.team import Team, argv, plugin

pytestmark = pytest.mark.e2e
HELD = "held.txt"
MODEL = "claude-opus-5-5"
"""One that has Code Mode."""
CODE_MODE = "CLAUDE_CODE_EXPERIMENTAL_CODE_MODE"


HOOKS = pytest.param("hooks", marks=pytest.mark.slow("test_guarded_whatever_is_down has what the hooks alone guard"))


@pytest.fixture(params=["mod", HOOKS])
def guarded(request: pytest.FixtureRequest, team: Team, sealed: Path, tmp_path: Path) -> Team:
    """A team whose sessions have the whole plugin or its hooks alone, and a file that a person has reserved."""
    if request.param == "hooks":
        team.plugin = plugin(tmp_path / "hooks alone", mod=False)
    trust(sealed, team.repo)
    (team.repo / HELD).write_text("theirs\n")
    team.house.run("lock", "acquire", HELD)
    return team


def asked(team: Team) -> str:
    """All that any model was told."""
    return json.dumps([request.body["messages"] for request in team.stage.requests])


@contextmanager
def background(team: Team, claude: Path, prompt: str) -> Iterator[None]:
    """A session that the client's supervisor runs; of neither, nor of what is beside them, anything stays."""
    config = Path(team.env["HOME"], ".claude")
    sockets = Path("/tmp", f"cc-daemon-{os.getuid()}", sha256(os.fsencode(config)).hexdigest()[:8])
    start = [str(claude), "--bg", *team.plugin, *WORKER_FLAGS, "--", prompt]
    subprocess.run(start, cwd=team.repo, env=team.env, check=True, capture_output=True, timeout=60)
    try:
        assert sockets.is_dir(), "where its processes are found"
        yield
    finally:
        for host in [
            process for process in psutil.process_iter() if any(str(sockets) in word for word in argv(process))
        ]:
            with suppress(psutil.NoSuchProcess):
                for top in (*(above for above in host.parents() if "daemon" in argv(above)), host):
                    for process in (*top.children(recursive=True), top):
                        process.kill()
        shutil.rmtree(sockets, ignore_errors=True)


def test_a_background_session_is_guarded(guarded: Team, claude: Path) -> None:
    settings = guarded.repo / ".claude" / "settings.json"
    before: dict[str, Any] = json.loads(settings.read_text())
    settings.write_text(json.dumps({**before, "worktree": {"bgIsolation": "none"}}))
    steps = (
        tool("Write", file_path=f"$CWD/{HELD}", content="mine"),
        tool("Write", file_path="$CWD/free.txt", content="mine"),
        text("All done."),
    )
    with background(guarded, claude, script(*steps)):
        guarded.until(lambda: any(request.step == {"text": "All done."} for request in guarded.stage.requests))
        assert "is held by" in asked(guarded)
        assert guarded.locks()["free.txt"]
    assert (guarded.repo / HELD).read_text() == "theirs\n"


CODE = """
for (const attempt of [() => write('$CWD/held.txt', 'mine'), () => edit('$CWD/held.txt', 'theirs', 'mine')]) {
  try { await attempt() } catch (fault) { console.log(fault.message) }
}
await write('$CWD/free.txt', 'mine')
"""


@pytest.fixture
def first(guarded: Team, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of clients that may have Code Mode."""
    with first_party(guarded.stage, tmp_path) as address:
        yield {name: value for name, value in guarded.env.items() if name != "ANTHROPIC_BASE_URL"} | address


def test_a_script_of_code_mode_is_guarded(guarded: Team, claude: Path, first: dict[str, str]) -> None:
    settings = {"env": {CODE_MODE: "1"}, "permissions": {"allow": ["Bash(*)"]}}
    flags = (*guarded.plugin, "--model", MODEL, "--settings", json.dumps(settings))
    run = run_client(claude, guarded.repo, script(tool("REPL", code=CODE), text("Done.")), first, *flags)
    assert "toolu_cc_" in json.dumps(run.events), "it was no script of Code Mode"
    check_guarded(guarded)


def test_a_script_of_code_mode_is_guarded_in_a_terminal(
    guarded: Team, claude: Path, first: dict[str, str], sealed: Path
) -> None:
    accepted = dict.fromkeys(("codeModeCaveatsAcceptedV1", "codeModeAutoModeCaveatAcceptedV1"), True)
    answers = sealed / ".claude.json"
    answers.write_text(json.dumps(json.loads(answers.read_text()) | accepted))
    flags = (*guarded.plugin, *WORKER_FLAGS, "--model", MODEL)
    with Terminal(claude, guarded.repo, first | {CODE_MODE: "1"}, *flags) as terminal:
        terminal.wait("Code Mode (experimental) is on")
        terminal.send(script(tool("REPL", code=CODE), text("Scripted.")))
        terminal.wait(lambda: any(request.step == {"text": "Scripted."} for request in guarded.stage.requests))
    check_guarded(guarded)


def check_guarded(team: Team) -> None:
    """Two attempts at what is held were refused, and what is free was written."""
    assert len(re.findall(r"held\.txt is held by", asked(team))) >= 2
    assert (team.repo / HELD).read_text() == "theirs\n"
    assert (team.repo / "free.txt").read_text() == "mine"


def test_a_teammate_is_guarded(guarded: Team, claude: Path) -> None:
    mate = script(
        tool("Write", file_path=str(guarded.repo / HELD), content="mine"),
        tool("Write", file_path=str(guarded.repo / "free.txt"), content="mine"),
        text("Mate done."),
    )
    lead = script(
        tool("Agent", name="bob", description="d", prompt=mate, subagent_type="general-purpose"), text("Led.")
    )
    env = {**guarded.env, "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1"}
    with Terminal(claude, guarded.repo, env, *guarded.plugin, *WORKER_FLAGS) as terminal:
        terminal.wait("accept edits on")
        terminal.send(lead)
        terminal.wait(lambda: any(request.step == {"text": "Mate done."} for request in guarded.stage.requests))
        assert "is held by" in asked(guarded)
        child = guarded.session(guarded.locks()["free.txt"])
        assert child["agent_type"] == "bob" or child["agent_type"] == "claude"
    assert (guarded.repo / HELD).read_text() == "theirs\n"
