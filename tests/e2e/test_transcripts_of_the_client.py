"""What the real client writes to a transcript, and what the daemon reads there when no hook tells of a session."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from corral.coordination.sessions.transcripts import HELD, answered_at, is_at_rest, last_words, written_at
from tests.e2e.stage import bash, bash_until, script, text
from tests.e2e.team import Member, Team, plugin

pytestmark = pytest.mark.e2e


class Transcript:
    """The file of one session."""

    def __init__(self, home: Path, member: Member) -> None:
        (self.path,) = (home / ".claude" / "projects").rglob(f"{member.session_id}.jsonl")

    @property
    def rests(self) -> bool:
        return is_at_rest(str(self.path))

    def rested_at(self, holds: Callable[[str], bool], copy: Path) -> bool:
        """Whether it told of rest when the entry was its last of which something holds."""
        lines = self.path.read_text().splitlines()
        (at,) = [number for number, line in enumerate(lines) if holds(line)]
        copy.write_text("\n".join(lines[: at + 1]) + "\n")
        return is_at_rest(str(copy))


def test_a_turn_that_ends_runs_or_is_broken_off_is_told_apart(start_team: Callable[..., Team], sealed: Path) -> None:
    team = start_team(config="sessions: {stale_after_s: 4}\n")
    member = team.member()
    began = datetime.now(timezone.utc)
    member.do(bash("true"))
    transcript = Transcript(sealed, member)
    written = written_at(str(transcript.path))
    assert written is not None and began <= written <= datetime.now(timezone.utc)
    assert transcript.rests and last_words(str(transcript.path)) == "Done."
    answered = answered_at(str(transcript.path))
    assert answered is not None and began < answered <= written

    began_file = team.repo.parent / "began"
    member.begin(bash_until("false", first=f"touch {began_file}"), text("Never."))
    team.until(began_file.exists)
    assert team.until(lambda: not transcript.rests)
    later = written_at(str(transcript.path))
    assert later is not None and later > written
    # A call of a tool is an answer too; the client writes it a moment after it runs the tool.
    team.until(lambda: (again := answered_at(str(transcript.path))) is not None and again > written)

    member.conversation.write(
        {"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt"}},
    )
    assert team.until(lambda: transcript.rests)
    assert team.until(lambda: member.row["status"] == "idle"), "although no hook told of it"
    member.do(bash("true"))
    assert transcript.rests


def test_a_turn_that_an_error_of_the_api_ends_is_over(team: Team, sealed: Path) -> None:
    member = team.member()
    team.stage.fail(400, times=None, containing="a turn that fails")
    member.conversation.turn(script(text("Never."), say="a turn that fails"))
    assert team.until(lambda: Transcript(sealed, member).rests)


def test_a_turn_that_a_hook_holds_goes_on(team: Team, sealed: Path, tmp_path: Path) -> None:
    team.plugin = plugin(tmp_path / "plugin", mod=False)  # a mod brings the mail into the turn: nothing is held then
    member = team.member()
    go = team.repo.parent / "go"
    member.begin(bash_until(f"[ -e {go} ]"), text("Done."))
    team.until(lambda: any(row["session_id"] == member.session_id for row in team.sessions()))
    body = {"to": [member.name], "subject": "Stop", "body": "Look at this first.", "importance": "urgent"}
    member.conversation.wait(lambda: member.requests)
    team.house.ask("POST", "/messages", body)
    go.touch()
    member.conversation.wait(lambda: member.conversation.results)
    transcript = Transcript(sealed, member)

    def is_held(line: str) -> bool:
        content = (json.loads(line).get("message") or {}).get("content")
        return isinstance(content, str) and content.startswith(HELD)

    assert not transcript.rested_at(is_held, tmp_path / "held.jsonl"), "the model is asked again"
    assert transcript.rests
