"""The roadmap's file: read with its mistakes named by line, written back with nothing but statuses changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.config.document import DocumentError
from corral.work.roadmap import supervision
from corral.work.roadmap.checks import read_roadmap, submission_of
from corral.work.roadmap.document import with_statuses

WHOLE = """\
# The plan.
epics:
  - id: E1   # an epic
    title:   "First"
    status: in_progress
    domain: product
    milestones:
    - id: M1
      title: 'One'
      status: pending
      kpi: {owner:   me}
      tasks:
          - id:   T-1     # the first
            title: >-
              A long
              title
            status:    pending    # not yet
            exit_criteria: [ "it  works", it is   tested ]

          - {id: T-2, status: "pending", dependencies: [T-1], title: Zweites ü 𝄞}
          - id: T-3
            dependencies:
            - T-2
            description: |
              status: pending
              id: T-1
tasks:
- status:
  id: 7

- id: T-5   # no status
  title: last"""


def statuses(text: str | bytes) -> dict[str, str | None]:
    data = text.encode() if isinstance(text, str) else text
    return {task.task_id: task.status for task in read_roadmap(data).tasks}


def problems(text: str) -> list[tuple[int | None, str | None, str]]:
    return [(problem.line, problem.task_id, problem.message) for problem in read_roadmap(text.encode()).problems]


@pytest.mark.req("SUP-AC5")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_nothing_but_the_statuses_changes(newline: str, bom: bytes) -> None:
    data = bom + WHOLE.replace("\n", newline).encode()
    assert list(statuses(data).values()) == ["pending"] * 5
    made = with_statuses(
        data, {"T-1": "in_progress", "T-2": "done", "T-3": "blocked", "7": "done", "T-5": "done", "gone": "done"}
    )
    expected = (
        WHOLE.replace("status:    pending    # not yet", "status:    in_progress    # not yet")
        .replace('status: "pending"', 'status: "done"')
        .replace("- id: T-3\n", "- id: T-3\n            status: blocked\n")
        .replace("- status:\n", "- status: done\n")
        .replace("# no status\n", "# no status\n  status: done\n")
    )
    assert made == bom + expected.replace("\n", newline).encode()
    assert with_statuses(made, {"T-1": "in_progress"}) == made


def test_a_status_that_cannot_be_replaced_is_refused_and_one_of_a_task_given_twice_stays() -> None:
    with pytest.raises(DocumentError, match="line 1"):
        with_statuses(b"- id: A\n  status: |-\n    pending\n", {"A": "done"})
    twice = b"- {id: A}\n- {id: A}\n"
    assert with_statuses(twice, {"A": "done"}) == twice
    last = with_statuses(b"- id: A", {"A": "done"})
    assert last == b"- id: A\n  status: done"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tasks:\n- id: A\n  title: 'open\n", "line 4"),
        ("tasks: &all\n- id: A\n", "line 1"),
        ("tasks:\n- &a {id: A}\n- *a\n", "line 2"),
        ("tasks:\n- id: A\n  id: B\n", "line 3"),
        ("tasks:\n- id: !!python/name:os.system A\n", "line 2"),
    ],
)
def test_what_is_no_plain_yaml_is_refused_with_its_line(text: str, line: str) -> None:
    with pytest.raises(DocumentError, match=line):
        read_roadmap(text.encode())


def test_each_mistake_is_named_with_its_line_and_the_rest_can_be_worked_on() -> None:
    text = """\
tasks:
- {id: A, command: 'true'}
- {id: B, command: 'true'}
- {id: A, command: 'true'}
- {id: C, status: started}
- {id: D, dependencies: [nobody]}
- {id: E, dependencies: [F]}
- {id: F, dependencies: [G]}
- {id: G, dependencies: [E]}
- {id: H, runner: abacus}
- {id: I, command: x, prompt: y}
- {id: J, priority: soon}
- {id: K, priority: 11}
- just text
- {title: no id}
- {id: L, dependencies: L}
- {id: M, claims: 7}
- {id: N, dependencies: [N]}
- {id: O, dependencies: [gone], status: done}
"""
    listed = problems(text)
    assert {(line, task) for line, task, _message in listed} == {
        (4, "A"), (5, "C"), (6, "D"), (7, "E"), (8, "F"), (9, "G"), (10, "H"), (11, "I"), (12, "J"), (13, "K"),
        (14, None), (15, None), (16, "L"), (17, "M"), (18, "N"),
    }  # fmt: skip
    messages = {line: message for line, _task, message in listed}
    assert messages[4] == "the id A is given twice, first in line 2"
    assert messages[5].startswith("unknown status 'started': use pending")
    assert messages[6] == "depends on nobody, which is not in the roadmap"
    assert messages[7] == "circular dependency: E → F → G → E" and messages[18] == "circular dependency: N → N"
    assert messages[10] == "unknown runner 'abacus': use command, claude or anthropic"
    assert [task.task_id for task in read_roadmap(text.encode()).sound] == ["B", "O"]


@pytest.mark.parametrize("text", ["tasks: 7", "epics: {a: b}", "epics: [7]", "epics: [{milestones: [7]}]", "a: b", "7"])
def test_another_shape_is_named(text: str) -> None:
    assert problems(text)[0][0] == 1


def test_a_key_that_is_not_read_as_it_is_meant_is_refused_with_the_right_one_and_a_teams_own_is_kept() -> None:
    text = """\
tasks:
- {id: A}
- {id: B, depends_on: [A]}
- {id: C, dependancies: [A]}
- {id: D, timeout: 7}
- {id: E, target: release}
- {id: F, kpi: 7, set_id: S, notes: [x], sprint: 3, assignee: me}
- {id: G, needs: [A], status: done}
epics:
- milestone:
  - tasks: [{id: H}]
  milestones:
  - task: [{id: I}]
"""
    assert problems(text) == [
        (3, "B", "`depends_on` is not a known key; write `dependencies`"),
        (4, "C", "`dependancies` is not a known key; write `dependencies`"),
        (5, "D", "`timeout` is not a known key; write `timeout_s`"),
        (6, "E", "`target` is not possible in a roadmap, but in `corral task submit`"),
        (11, None, "`milestone` is not a known key; write `milestones`"),
        (13, None, "`task` is not a known key; write `tasks`"),
    ]
    assert [task.task_id for task in read_roadmap(text.encode()).sound] == ["A", "F", "G"]


def test_an_empty_roadmap_has_no_tasks() -> None:
    for text in ("", "# later\n", "epics:\ntasks:\n", "epics: []"):
        assert read_roadmap(text.encode()).tasks == () and problems(text) == []


@pytest.mark.req("SUP-FR1")
def test_what_a_task_becomes_in_the_queue() -> None:
    text = """\
- id: CRIT-1
  title: Mend it
  description: It is broken.
  exit_criteria: [it works, 7]
- {id: a-REMEDIATION, command: make, claims: [src/], estimate_hours: 3}
- {id: P, domain: product, prompt: Say it.}
- {id: M, domain: mcp, agent: coder}
- {id: H, priority: High}
- {id: L, priority: low, domain: product}
- {id: N, priority: 9}
- {id: D}
- {id: C, capabilities: [research], timeout_s: 7, max_retries: 2, limits: {max_turns: 3}}
"""
    made = [submission_of(task) for task in read_roadmap(text.encode()).tasks]
    assert [task.priority for task in made] == [10, 10, 7, 6, 8, 2, 9, 5, 5]
    assert made[0].prompt == "Mend it\n\nIt is broken.\n\nExit criteria:\n- it works\n- 7"
    assert (made[0].idempotency_key, (made[0].metadata or {})["roadmap_id"]) == ("roadmap:CRIT-1", "CRIT-1")
    assert (made[1].title, made[1].command, made[1].claims, made[1].runner) == (
        "a-REMEDIATION", "make", ["src/"], "command")  # fmt: skip
    assert made[2].prompt == "Say it." and made[3].agent == "coder"
    assert made[8].agent_requirements is not None and made[8].agent_requirements.capabilities == ["research"]
    assert (made[8].timeout_s, made[8].max_retries, made[8].limits.max_turns) == (7, 2, 3)


def test_the_work_and_the_approval_of_a_task_change_with_what_they_are_about_alone() -> None:
    def about(text: str) -> tuple[str, str]:
        roadmap = read_roadmap(f"- {{id: A, {text}}}\n".encode())
        (task,) = roadmap.sound
        return submission_of(task).metadata["roadmap_work"], roadmap.claims["A"].digest  # type: ignore[index]

    same = about("command: make")
    assert about("command: make, status: blocked, priority: high, estimate_hours: 3") == same
    work, approval = about("command: make, claims: [src/], timeout_s: 7, title: Other")
    assert work != same[0] and approval == same[1]
    assert all(content != other for content, other in zip(about("command: make all"), same, strict=True))
    assert all(content != other for content, other in zip(about("prompt: make"), same, strict=True))


def test_ids_that_would_share_a_folder_are_refused_with_both_lines() -> None:
    text = "- {id: Log-In}\n- {id: other}\n- {id: log-in}\n- {id: a/b}\n- {id: a_b}\n- {id: " + "x" * 121 + "}\n"
    assert problems(text) == [
        (1, "Log-In", "the id Log-In is too much like log-in in line 3: rename one"),
        (3, "log-in", "the id log-in is too much like Log-In in line 1: rename one"),
        (6, "x" * 121, f"the id {'x' * 40}… has more than 120 characters"),
    ]
    assert [task.task_id for task in read_roadmap(text.encode()).sound] == ["other", "a/b", "a_b"]


def test_a_file_that_changed_meanwhile_is_read_again_and_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "roadmap.yaml"
    path.write_text("- {id: A}\n")
    path.chmod(0o640)
    edits = iter(["- {id: A, title: theirs}\n", None])

    def edit(data: bytes) -> bytes:
        if (text := next(edits)) is not None:
            path.write_text(text)  # somebody else, between reading and writing
        return with_statuses(data, {"A": "done"})

    written = supervision.change(path, edit)
    assert written is not None and written.stamp == supervision.stamp_of(path)
    assert path.read_text() == "- {id: A, status: done, title: theirs}\n"
    assert path.stat().st_mode & 0o777 == 0o640 and os.listdir(tmp_path) == ["roadmap.yaml"]  # noqa: PTH208

    def always(data: bytes) -> bytes:
        path.write_text(path.read_text() + "#\n")
        return with_statuses(data, {"A": "blocked"})

    assert supervision.change(path, always) is None
    assert "blocked" not in path.read_text() and os.listdir(tmp_path) == ["roadmap.yaml"]  # noqa: PTH208


def test_a_link_to_the_roadmap_stays_one_and_a_pipe_does_not_stop_anybody(tmp_path: Path) -> None:
    real, link, pipe = tmp_path / "real.yaml", tmp_path / "roadmap.yaml", tmp_path / "pipe"
    real.write_text("- {id: A}\n")
    link.symlink_to(real)
    supervision.change(link, lambda data: with_statuses(data, {"A": "done"}))
    assert link.is_symlink() and real.read_text() == "- {id: A, status: done}\n"
    os.mkfifo(pipe)
    with pytest.raises(DocumentError, match="regular file"):
        supervision.read(pipe)
