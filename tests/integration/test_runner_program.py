"""The program of an agent: started by its arguments, with everything it is told as its standard input."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.core.errors import InvalidInput, RunnerUnavailable
from corral.runners.command import CommandRunner
from corral.runners.protocol import BRIEFING, Finished
from tests.integration.running import clock, finish, make_assignment


def run(folder: Path, *program: str, prompt: str | None = "Do this.", instructions: str | None = None) -> Finished:
    """Run a program to its end; what it wrote is in ``folder/logs/1.log``."""
    assignment = make_assignment(folder, program=program, prompt=prompt, instructions=instructions)
    return finish(CommandRunner({"PATH": os.environ["PATH"]}).start(assignment, clock()))


def said(folder: Path) -> str:
    return (folder / "logs" / "1.log").read_text()


def test_it_is_told_what_everyone_is_told_then_its_instructions_then_the_task(tmp_path: Path) -> None:
    assert run(tmp_path, "cat", instructions="Be brief.").success
    assert said(tmp_path) == f"{BRIEFING}\n\nBe brief.\n\nDo this.\n"


def test_a_prompt_that_no_argument_and_no_pipe_could_hold_arrives_whole_and_ends(tmp_path: Path) -> None:
    prompt = "é" * 500_000 + " THE END"
    assert run(tmp_path, "cat", prompt=prompt).success
    assert said(tmp_path) == f"{BRIEFING}\n\n{prompt}\n"


def test_no_shell_reads_its_arguments(tmp_path: Path) -> None:
    assert run(tmp_path, "printf", "<%s>", "$(touch made) `id` *", "--").success
    assert said(tmp_path) == "<$(touch made) `id` *><-->"
    assert not (tmp_path / "worktree" / "made").exists()


def test_who_does_not_listen_may_end_all_the_same(tmp_path: Path) -> None:
    assert run(tmp_path, "true", prompt="x" * 500_000).success
    failed = run(tmp_path, "sh", "-c", "echo no; exit 3", prompt="x" * 500_000)
    assert (failed.error_code, failed.exit_code, failed.retryable) == ("command_failed", 3, True)


def test_a_program_that_is_not_there_is_named_with_a_remedy(tmp_path: Path) -> None:
    runner = CommandRunner({"PATH": os.environ["PATH"]})
    runner.available(("cat",))
    with pytest.raises(RunnerUnavailable, match="'no-such-agent' was not found") as missing:
        runner.available(("no-such-agent", "run"))
    assert "Install no-such-agent" in missing.value.remedy
    with pytest.raises(RunnerUnavailable):
        run(tmp_path, "no-such-agent")
    with pytest.raises(InvalidInput):
        run(tmp_path, "cat", prompt=None)


@pytest.mark.req("X10")
def test_a_program_gets_no_credential_of_the_daemons_environment(tmp_path: Path) -> None:
    """What a person gives it stands in its user's files, or in its definition's ``runner_env``."""
    secrets = {"ANTHROPIC_API_KEY": "the-key", "CLAUDE_CODE_OAUTH_TOKEN": "the-token", "GEMINI_API_KEY": "another"}
    assignment = make_assignment(tmp_path, program=("env",), prompt="Do this.", env={"OPENCODE_CONFIG": "/x"})
    runner = CommandRunner({"PATH": os.environ["PATH"], "HOME": "/home/ada", **secrets})
    assert finish(runner.start(assignment, clock())).success
    environment = dict(line.split("=", 1) for line in said(tmp_path).splitlines())
    assert not set(secrets) & set(environment)
    assert (environment["HOME"], environment["OPENCODE_CONFIG"]) == ("/home/ada", "/x")
