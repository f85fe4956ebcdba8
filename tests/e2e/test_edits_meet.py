"""Sessions of the real client that want the same files: who gets them, and what everybody is told."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit, git
from tests.e2e.stage import bash, bash_until, script, text, tool
from tests.e2e.team import Pair, Team
from tests.support.files import put

pytestmark = pytest.mark.e2e


def write(path: str, content: str) -> dict[str, object]:
    return tool("Write", file_path=f"$CWD/{path}", content=content)


@pytest.mark.req("RESERVE-2")
def test_of_two_that_race_for_a_file_one_edits_and_the_other_is_told_who_holds_it(pair: Pair) -> None:
    files = [f"deep/f{number}.txt" for number in range(6)]
    team, *runners = pair
    for lane, (runner, order) in enumerate([(runners[0], files), (runners[1], files[::-1])]):
        runner.begin(*(write(path, runner.session_id) for path in order), text("Done."), say=f"Race {lane}")
    team.until(lambda: all(runner.has_done() for runner in runners))
    names = {runner.session_id: runner.name for runner in runners}
    tasks = {runner.session_id: f'"Race {at}"' for at, runner in enumerate(runners)}
    held = team.locks()
    assert sorted(held) == sorted(files)
    for runner in runners:
        lost = [path for path in files if held[path] != runner.session_id]
        denials = re.findall(
            r"([^\s>]+) is held by (\w+), who is editing it for (.+?), until \d\d:\d\d UTC", runner.told
        )
        assert sorted(denials) == sorted((path, names[held[path]], tasks[held[path]]) for path in lost)
    for path in files:
        assert (team.repo / path).read_text() == held[path]


def test_a_file_changed_by_a_shell_command_while_another_holds_it_is_told_to_both(pair: Pair) -> None:
    team, holder, other = pair
    holder.do(write("src/new.py", "mine\n"), say="Write the new module")
    transcript = other.do(bash("echo theirs >> src/new.py; echo free > free.txt"))
    assert f'changed src/new.py, which {holder.name} holds for "Write the new module", until ' in transcript
    assert "free.txt" not in transcript
    assert team.locks() == {"src/new.py": holder.session_id, "free.txt": other.session_id}
    assert f"{other.name} changed src/new.py by a shell command while you hold it." in holder.do(bash("true"))
    assert "changed src/new.py" not in holder.do(bash("true"))


def test_the_commands_of_a_skill_and_of_a_monitor_are_guarded_as_those_of_bash(pair: Pair) -> None:
    team, holder, _other = pair
    for name, command in {"sweeps": "git stash", "overwrites": "echo theirs > draft.txt"}.items():
        put(
            team.repo / ".claude" / "skills" / name / "SKILL.md",
            f"---\nname: {name}\ndescription: Does it.\n---\n!`{command}`\n",
        )
    holder.do(write("draft.txt", "not yet committed\n"))
    text = team.member().do(
        tool("ToolSearch", query="select:Monitor", max_results=1),
        tool("Monitor", description="it", command="git stash", timeout_ms=5000, persistent=False),
        tool("Skill", skill="sweeps"),
        tool("Skill", skill="overwrites"),
        tool("Read", file_path="$CWD/README.md"),
    )
    assert text.count(f"would touch work of {holder.name} in this checkout (draft.txt)") == 2, text
    assert f"changed draft.txt, which {holder.name} holds" in text
    (restore,) = re.findall(r"this brings it back: `(git [^`]+)`", holder.do(bash("true")))
    holder.do(bash(restore))
    assert (team.repo / "draft.txt").read_text() == "not yet committed\n"


def test_what_the_client_of_another_session_rewinds_is_kept_and_its_holder_is_told_where(pair: Pair) -> None:
    team, holder, other = pair
    team.env["CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"] = "true"
    first, prompt = team.member(), str(uuid.uuid4())
    words = script(write("draft.txt", "the first one's\n"), text("Done."), say="Begin")
    first.conversation.write({"type": "user", "uuid": prompt, "message": {"role": "user", "content": words}})
    team.until(first.has_done)
    team.house.ask("POST", "/locks/release", {"session_id": first.session_id})
    holder.do(tool("Read", file_path="$CWD/draft.txt"), write("draft.txt", "the holder's own\n"))
    assert team.locks() == {"draft.txt": holder.session_id}

    def copies() -> list[str]:
        listed: list[dict[str, Any]] = team.house.json("worktree", "recover")
        return [row["ref"] for row in listed if row["files"] == ["draft.txt"]]

    team.until(copies)
    other.do(bash("true"))  # the copy is compared once more after the end of the edit that it is of
    ask = {"subtype": "rewind_files", "user_message_id": prompt}
    first.conversation.write({"type": "control_request", "request_id": "r", "request": ask})
    team.until(lambda: not (team.repo / "draft.txt").exists())

    def restores() -> list[str]:
        """From all that its model was ever told: the notice may come with a turn's prompt, or between two turns."""
        holder.do(bash("true"))
        return re.findall(r"/rewind.+?It was copied before: (git .+? -- draft\.txt)", str(holder.requests[-1].body))

    restore, *_same = team.until(restores)
    assert any(copy in restore for copy in copies())
    holder.do(bash(restore))
    assert (team.repo / "draft.txt").read_text() == "the holder's own\n"


def test_what_another_left_uncommitted_is_written_over_only_by_one_who_was_shown_it(pair: Pair) -> None:
    team, one, other = pair
    one.do(write("left.txt", "theirs\n"))
    team.house.ask("POST", "/locks/release", {"session_id": one.session_id, "paths": ["left.txt"]})
    transcript = other.do(write("left.txt", "mine\n"))
    assert f"left.txt has changes of {one.name} that are in no commit" in transcript and "+theirs" in transcript
    assert (team.repo / "left.txt").read_text() == "theirs\n"
    other.do(write("left.txt", "mine\n"))
    assert (team.repo / "left.txt").read_text() == "mine\n"


def test_a_session_that_only_ran_its_tests_is_not_blamed_for_what_another_generated_meanwhile(
    pair: Pair, tmp_path: Path
) -> None:
    team, tester, author = pair
    began, go = tmp_path / "began", tmp_path / "go"
    tester.begin(bash_until(f"[ -e {go} ]", first=f"touch {began}"), text("Tested."), say="Run the tests")
    team.until(began.exists)
    transcript = author.do(bash("echo 'a = 2' > src/a.py; echo new > made.txt"), say="Generate")
    assert f"These files changed while your shell command and one of {tester.name} ran" in transcript
    go.touch()
    team.until(tester.has_done)
    heard = tester.told + tester.do(bash("true"))
    assert heard.count("Which of you did it is not known, and nobody was given a lock.") >= 1
    assert "Undo" not in heard + transcript
    assert team.locks() == {}
    transcript = author.do(
        tool("Read", file_path="$CWD/src/a.py"),
        tool("Edit", file_path="$CWD/src/a.py", old_string="a = 2", new_string="a = 3"),
    )
    assert "is held by" not in transcript and (team.repo / "src" / "a.py").read_text() == "a = 3\n"
    assert team.locks() == {"src/a.py": author.session_id}


def test_what_a_shell_command_deletes_of_anothers_is_brought_back_by_the_command_that_both_are_told(pair: Pair) -> None:
    team, holder, other = pair
    holder.do(
        write("draft.txt", "not yet committed\n"),
        tool("Read", file_path="$CWD/src/a.py"),
        tool("Edit", file_path="$CWD/src/a.py", old_string="a = 1", new_string="a = 2"),
        say="Write the draft",
    )
    transcript = other.do(bash("rm draft.txt src/a.py"))
    assert not (team.repo / "draft.txt").exists()
    for path in ("draft.txt", "src/a.py"):
        assert f'deleted {path}, which {holder.name} holds for "Write the draft"' in transcript
    named = re.findall(r"this brings it back: `(git [^`]+)`", transcript)
    heard = holder.do(bash("true"))
    assert f"{other.name} deleted draft.txt by a shell command while you hold it." in heard
    assert sorted(re.findall(r"this brings it back: `(git [^`]+)`", heard)) == sorted(named) and len(named) == 2
    mine, theirs = named
    holder.do(bash(mine))
    assert "not run" not in other.do(bash(theirs))
    assert (team.repo / "draft.txt").read_text() == "not yet committed\n"
    assert (team.repo / "src" / "a.py").read_text() == "a = 2\n"
    assert git(team.repo, "diff", "--cached", "--name-only") == "", "the index is untouched"
    assert team.locks() == {"draft.txt": holder.session_id, "src/a.py": holder.session_id}


def test_what_a_failing_command_wrote_is_seen_too(pair: Pair) -> None:
    team, member, _other = pair
    member.do(bash("echo half > half.txt; exit 1"))
    assert team.locks() == {"half.txt": member.session_id}


DANGERS = [
    "git stash",
    "git reset --hard",
    "git checkout .",
    "git restore .",
    "git clean -fd",
    "git add -A",
    "git commit -am x",
]


def test_what_would_sweep_up_the_work_of_others_is_denied_and_their_work_saved_first(pair: Pair) -> None:
    team, holder, other = pair
    holder.do(write("draft.txt", "not yet committed\n"))
    transcript = other.do(*(bash(command) for command in DANGERS))
    assert transcript.count("The command was not run.") == len(DANGERS)
    assert transcript.count(f"would touch work of {holder.name} in this checkout (draft.txt)") == len(DANGERS)
    assert "Name your own files: `git add <your files>`." in transcript
    saved = re.findall(r"was saved as (refs/corral/salvage/\S+) ", transcript)
    assert len(saved) == len(DANGERS) and len(set(saved)) == 1, "the same state is saved once"
    for ref in saved:
        assert git(team.repo, "show", f"{ref}:draft.txt") == "not yet committed"
    assert (team.repo / "draft.txt").read_text() == "not yet committed\n"
    assert git(team.repo, "stash", "list") == ""
    assert git(team.repo, "diff", "--cached", "--name-only") == ""


def test_alone_in_a_checkout_git_does_what_it_always_did(team: Team) -> None:
    member = team.member()
    transcript = member.do(
        tool("Read", file_path="$CWD/src/a.py"),
        tool("Edit", file_path="$CWD/src/a.py", old_string="a = 1", new_string="a = 2"),
        bash("git stash && git stash pop && git commit -qam 'Two' && git log -1 --format=%s"),
        bash("echo 3 > src/a.py; git reset -q --hard && cat src/a.py"),
    )
    assert "not run" not in transcript
    assert (team.repo / "src" / "a.py").read_text() == "a = 2\n"
    assert git(team.repo, "log", "-1", "--format=%s") == "Two"
    assert git(team.repo, "for-each-ref", "refs/corral/salvage") == ""


def test_the_briefing_reaches_the_model_and_is_short(pair: Pair) -> None:
    team, first, _other = pair
    names = [f"file-with-a-rather-long-name-{number}.txt" for number in range(12)]
    first.do(*(write(name, "x") for name in names), say="Rewrite everything")
    team.until(lambda: first.row["status"] == "idle")  # its client tells of the end of a turn a moment later
    second = team.member()
    transcript = second.do()
    briefing = transcript[transcript.index("SessionStart hook additional context: ") :].split("\n\n")[0]
    assert f"You are {second.name} " in briefing
    assert f"- {first.name} (idle): Rewrite everything" in briefing
    assert f"- {names[0]} ({first.name})" in briefing
    assert "more (`corral lock list`)" in briefing
    assert len(briefing) <= 1600
    second.conversation.finish()  # nothing of ours keeps it from ending


def test_the_file_behind_a_symlink_is_what_is_locked(pair: Pair) -> None:
    team, first, second = pair
    cells = [{"cell_type": "code", "id": "one", "metadata": {}, "outputs": [], "source": []}]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    commit(team.repo, {"src/book.ipynb": json.dumps(notebook)})
    (team.repo / "linked").symlink_to("src")
    first.do(
        write("linked/new.py", "x"),
        tool("Read", file_path="$CWD/linked/a.py"),
        tool("Edit", file_path="$CWD/linked/a.py", old_string="a = 1", new_string="a = 2"),
        tool("ToolSearch", query="select:NotebookEdit", max_results=1),
        tool("Read", file_path="$CWD/linked/book.ipynb"),
        tool("NotebookEdit", notebook_path="$CWD/linked/book.ipynb", cell_id="one", new_source="print(1)"),
    )
    assert "print(1)" in (team.repo / "src" / "book.ipynb").read_text()
    assert sorted(team.locks()) == ["src/a.py", "src/book.ipynb", "src/new.py"]
    transcript = second.do(write("src/new.py", "y"))
    assert f"src/new.py is held by {first.name}" in transcript
    assert (team.repo / "src" / "new.py").read_text() == "x"
