"""What the real client edits while no daemon runs is attributed by its own transcript once one is back."""

from __future__ import annotations

import pytest

from tests.e2e.stage import bash, bash_until, text, tool
from tests.e2e.team import Team

pytestmark = [pytest.mark.e2e, pytest.mark.faults]


def write(path: str, content: str) -> dict[str, object]:
    return tool("Write", file_path=f"$CWD/{path}", content=content)


def test_what_a_client_edited_while_the_daemon_was_away_is_locked_for_it(team: Team) -> None:
    away, other = team.member(), team.member()
    other.do(bash("true"))
    began, go = team.repo.parent / "began", team.repo.parent / "go"
    away.begin(
        bash_until(f"[ -e {go} ]", first=f"touch {began}"),
        {"sleep": 3},  # a person's edit falls into no command
        write("tool.txt", "by a tool\n"),
        tool("Read", file_path="$CWD/src/a.py"),
        tool("Edit", file_path="$CWD/src/a.py", old_string="a = 1", new_string="a = 2"),
        bash("echo shell > shell.txt"),
        text("Done."),
    )
    team.until(began.exists)
    asked = len(away.requests)
    run = team.repo / ".corral" / "run"
    run.chmod(0o755)  # so that no daemon can start
    team.house.kill_daemon()
    go.touch()
    team.until(lambda: len(away.requests) > asked)
    (team.repo / "README.md").write_text("by hand\n")
    away.conversation.wait(lambda: away.conversation.results)
    assert team.house.daemon_pid() is None
    run.chmod(0o700)
    team.house.run("daemon", "start")
    mine = dict.fromkeys(("tool.txt", "src/a.py", "shell.txt"), away.session_id)
    team.until(lambda: team.locks() == mine)
    needs = [need for need in team.house.ask("GET", "/status")["needs_you"] if need["kind"] == "unannounced_changes"]
    assert len(needs) == 1 and "1 uncommitted file in" in needs[0]["what"] and "README.md" in needs[0]["what"]
    transcript = other.do(
        write("tool.txt", "theirs"),
        tool("Read", file_path="$CWD/README.md"),
        tool("Edit", file_path="$CWD/README.md", old_string="by hand", new_string="by a client"),
    )
    assert f"tool.txt is held by {away.name}" in transcript
    assert (team.repo / "tool.txt").read_text() == "by a tool\n"
    assert "README.md changed while Corral's daemon was away, and nobody announced it." in transcript
    assert team.locks() == {**mine, "README.md": other.session_id}
