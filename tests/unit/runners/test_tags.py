"""Tags: a command that puts one on, and the marks that it stands for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import corral
from corral.runners.tags import PROJECT_MARK, TASK_MARK, VERIFICATION_MARK, WORKTREE_MARK, is_tagged, tagging
from tests.support.programs import requires

pytestmark = requires("prlimit")
MARKS = {PROJECT_MARK: "a project", TASK_MARK: "a task", WORKTREE_MARK: "/a"}
SHEDS = "import sys; sys.path.append(sys.argv[1]); from corral.runners import tags; tags.shed(); "


@contextmanager
def tagged(*argv: str) -> Iterator[subprocess.Popen[str]]:
    """A process with the tag for the marks, which says a line when it is there."""
    with subprocess.Popen(
        tagging(argv, MARKS), env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("marks", "is_one"),
    [
        (MARKS, True),
        ({PROJECT_MARK: "a project", TASK_MARK: "a task"}, True),
        ({PROJECT_MARK: "a project"}, True),
        ({PROJECT_MARK: "a project", TASK_MARK: "another"}, False),
        ({PROJECT_MARK: "a project", VERIFICATION_MARK: "a task"}, False),
        ({PROJECT_MARK: "a project", TASK_MARK: ""}, False),
        ({PROJECT_MARK: "another", TASK_MARK: "a task"}, False),
        ({PROJECT_MARK: "another"}, False),
        ({TASK_MARK: "a task"}, False),
        ({}, False),
    ],
)
def test_a_tag_stands_for_the_project_and_the_task(marks: dict[str, str], is_one: bool) -> None:
    with tagged("/bin/sh", "-c", "echo up; read line") as process:
        assert is_tagged(process.pid, marks) == is_one


def test_who_sheds_its_tag_has_none_and_nothing_it_starts_has_one() -> None:
    starts = "import subprocess; subprocess.run(['sh', '-c', 'echo $$; read line'])"
    code = f"{SHEDS}print(flush=True); {starts}"
    with tagged(sys.executable, "-c", code, str(Path(corral.__file__).parents[1])) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        assert not is_tagged(process.pid, MARKS) and not is_tagged(child, MARKS)


def test_what_has_no_mark_is_started_as_it_is() -> None:
    assert tagging(["true", "-x"], {TASK_MARK: "a task"}) == ["true", "-x"]


def test_no_process_has_no_tag() -> None:
    ended = subprocess.Popen(tagging(["true"], MARKS))
    ended.wait()
    assert not is_tagged(ended.pid, MARKS)
