"""``corral interactive``: what needs a person is seen at once and settled with one key, live."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from corral.core.errors import InvalidInput
from corral.faces.screen.actions import main_key
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable
from tests.support.scene import add_needs, make_repository
from tests.support.screens import Player, play
from tests.support.tmux import Tmux, Window

NASTY = "[bold red]x[/] \x1b[31m\u202emoc"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Coordinated]:
    """A repository in which a conflict, a dead task and an approval need a person."""
    house = make_repository(tmp_path / "shop")
    yield house
    house.stop()


def outcome(house: Coordinated, task_id: str) -> str:
    return str(house.ask("GET", f"/tasks/{task_id}/detail")["outcome"])


@pytest.mark.req("FR-CLI-008")
def test_three_things_that_need_a_person_are_seen_at_once_and_settled_with_a_key_each(shop: Coordinated) -> None:
    ids = add_needs(shop)
    held = shop.ask("GET", f"/merges/{ids['held']}")["merge_id"]

    async def script(player: Player) -> None:
        lines = await player.sees("Needs you  3", "[Tasks 4]", "landed")
        assert [line[2:13].strip() for line in lines[3:6]] == ["approval", "dead", "conflict"]
        assert "a approve" in lines[3] and "r retry" in lines[4] and "o open" in lines[5]
        for need in shop.ask("GET", "/status")["needs_you"]:
            assert f" {main_key(need).split()[1]} " in need["remedy"]
        assert lines[0].startswith(" Corral  shop → main") and lines[0].endswith("live")
        await player.press("a")
        await player.sees(
            "Approve this change?", "Describe how to test  corral/task-", "+Run pytest -q before each commit."
        )
        await player.press("escape")
        assert shop.ask("GET", f"/merges/{held}")["state"] == "held", "Escape approves nothing"
        await player.press("a")
        await player.sees("Approve this change?")
        await player.press("y")
        await player.sees("Needs you  2", "Approved")
        await player.press("enter")
        page = await player.sees("Dead", "what to do", "price is no number")
        assert any("r retry" in line and "d dismiss" in line for line in page), "the keys of the row work there too"
        await player.press("escape", "l")
        await player.sees("(end)", "Esc back")
        await player.press("escape", "j", "k", "d")  # back from the output to the row
        await player.sees("Dismiss?", "Import the catalogue", "a retry takes this back")
        await player.press("escape")
        await player.misses("Dismiss?")
        assert outcome(shop, ids["dead"]) == "dead", "nothing was agreed to"
        await player.press("d")
        await player.sees("Dismiss?")
        await player.press("y")
        await player.sees("Needs you  1", "Dismissed")
        await player.press("r")
        await player.sees("Nothing needs you.", "Last: ", ": ended")
        await player.until(lambda _: outcome(shop, ids["conflict"]) == "nothing to land")

    play(shop, script)
    assert outcome(shop, ids["held"]) == "landed" and outcome(shop, ids["dead"]) == "dismissed"


@pytest.mark.req("FR-CLI-008")
def test_every_panel_is_live_filtered_and_sorted_and_a_lost_daemon_is_found_again(house: Coordinated) -> None:
    for name in ("Ann", "Bob"):
        house.ask("POST", "/sessions", {"session_id": f"s-{name}", "agent_name": name, "cwd": str(house.root)})
    house.edit("s-Ann", "src/a.py")
    letter = {"session_id": "s-Ann", "to": ["Bob"], "subject": NASTY, "body": f"hello\n{NASTY}"}
    house.ask("POST", "/messages", letter)
    hold = house.root.parent / "hold"
    hold.touch()
    printed = r"printf 'begun \033[31m[red]\033[0m\n'"
    first = house.submit("[red]Zebra[/red]", f"{printed}; while [ -e {hold} ]; do sleep 0.1; done")
    eventually(lambda: outcome(house, first) == "running")

    async def script(player: Player) -> None:
        await player.sees("Nothing needs you.", "1  running", "now  [red]Zebra[/red]", "Agents 3", "Locks 1", "Mail 1")
        await player.press("l")
        await player.sees("begun [red]")  # colour codes are left out, markup is text
        await player.press("escape", "3")
        await player.sees("[Agents 3]", "Ann", "Bob")
        await player.press("5", "x")
        await player.sees("Take this lock from its holder?", "src/a.py")
        await player.press("escape")
        assert len(house.ask("GET", "/locks")) == 1, "nothing was agreed to"
        await player.press("x")
        await player.sees("Take this lock")
        await player.press("y")
        await player.sees("No locks: nobody edits a file.")
        await player.press("6")
        await player.sees(r"[bold red]x[/] [31m\u202emoc")
        await player.press("enter")
        await player.sees("hello", r"[bold red]x[/] \x1b[31m\u202emoc", "to          Bob")
        await player.press("escape", "m")
        await player.sees("Reply to Ann")
        await player.press(*"ok", "enter")
        await player.until(lambda _: len(house.ask("GET", "/messages", query={"everyone": True})) == 2)

        await player.press("2")
        house.submit("Aardvark", "true", "--priority", "0")
        await player.sees("Aardvark")
        await player.press("slash", *"zeb", "enter")
        await player.sees("/zeb: 1 of 2")
        await player.press("escape", "s", "s", "s")
        lines = await player.sees("by title", "Zebra")
        order = [line for line in lines if "Zebra" in line or "Aardvark" in line]
        assert "Aardvark" in order[1] and "Zebra" in order[0], "[ stands before A"
        house.kill_daemon()
        await player.sees("daemon away", "The daemon is away")
        house.run("daemon", "start")
        house.submit("After the restart", "true")
        await player.sees("● live", "After the restart")
        await player.misses("The daemon is away")
        await player.press("question_mark")
        await player.sees("leave; the work continues")
        await player.press("q", "q")

    play(house, script)
    hold.unlink()
    assert house.daemon_pid() is not None


def test_only_as_much_as_fits_is_shown_and_below_a_minimum_that_is_said(house: Coordinated) -> None:
    house.submit("A title that is much longer than a narrow terminal can show in a line of its own", "true")
    threads = threading.active_count()
    for size in ((20, 9), (33, 12), (60, 16), (200, 60)):

        async def script(player: Player, size: tuple[int, int] = size) -> None:
            lines = await player.sees("A title")
            assert all(len(line) <= size[0] for line in lines) and "Corral" in lines[0] and "q" in lines[-1]

        play(house, script, size)

    async def too_small(player: Player) -> None:
        await player.sees("Too small: 19 x 9.", "q leaves.")

    play(house, too_small, (19, 9))

    async def plain(player: Player) -> None:
        lines = await player.sees("A title", "nothing to land")
        assert "".join(lines).isascii() and "* live" in lines[0]

    play(house, plain, plain=True)
    eventually(lambda: threading.active_count() <= threads)


def test_more_tasks_than_a_page_has_are_all_there(house: Coordinated) -> None:
    house.configure("queue: {max_size: 5000}\n")
    house.run("pause")
    speaker = house.client()
    for start in (0, 1000):
        tasks = [{"title": f"Task x{start + number}", "command": "true"} for number in range(1000)]
        speaker.request("POST", "/tasks/batch", {"tasks": tasks})
    speaker.close()

    async def script(player: Player) -> None:
        await player.sees("paused", "u resume", "Tasks 2,000")
        await player.press("2", "G")  # they stand in the order in which they start
        await player.sees("Task x1999")
        await player.press("slash", *"x1999", "enter")
        await player.sees("/x1999: 1 of 2,000", "Task x1999")
        await player.press("g", "plus")
        await player.sees("Priority 6.")
        await player.press("c")
        await player.sees("Cancel this?", "Task x1999")
        await player.press("y")
        await player.sees("cancelled")

    play(house, script)


@pytest.mark.req("FR-CLI-008")
def test_a_log_of_a_gigabyte_is_followed_from_its_end_on_in_little_memory(house: Coordinated) -> None:
    hold = house.root.parent / "hold"
    hold.touch()
    task_id = house.submit("Talks", f"echo begun; while [ -e {hold} ]; do sleep 0.1; done")
    log = house.root / ".corral" / "logs" / "tasks" / task_id / "1.log"
    eventually(lambda: log.exists() and "begun" in log.read_text())
    with log.open("r+b") as handle:  # a sparse file: as long, without the disk
        handle.truncate(10**9)
        handle.seek(0, os.SEEK_END)
        handle.write(b"\n" + b"".join(b"line %d\n" % number for number in range(20_000)))
    before = psutil.Process().memory_info().rss

    async def script(player: Player) -> None:
        await player.sees("1  running")
        await player.press("l")
        await player.sees("line 19999")
        with log.open("ab") as handle:
            handle.write(b"the last word\n")
        await player.sees("the last word")

    play(house, script)
    hold.unlink()
    assert psutil.Process().memory_info().rss - before < 100 << 20
    part = house.ask("GET", f"/tasks/{task_id}/log", query={"tail": 30})
    assert part["text"].endswith("the last word\n") and part["text"].startswith("line 1999")


def test_without_a_terminal_it_says_so(house: Coordinated) -> None:
    for command in (["interactive"], ["-i"]):
        done = house.run(*command, check=False)
        assert done.returncode == InvalidInput.exit_code and "needs a terminal" in done.stderr
    assert "--interactive has no command" in house.run("-i", "status", check=False).stderr


# -- in a real terminal -------------------------------------------------------------------------------------------


Open = Callable[..., Window]
"""Opens the screen of a project in a terminal; then says how it has ended."""


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Open]:
    server = Tmux(tmp_path)
    source = str(Path(__file__).resolve().parents[2] / "daemon")

    def start(house: Coordinated, size: tuple[int, int] = (80, 24), **settings: str) -> Window:
        command = f'{shlex.quote(sys.executable)} -m corral -i; echo "left with $?"; exec sleep 600'
        env = {**os.environ, "PYTHONPATH": source, "SHELL": "/bin/sh", **settings}
        return server.open(["sh", "-c", command], cwd=house.root, env=env, size=size)

    yield start
    server.end()


@pytest.mark.req("FR-CLI-008")
def test_in_a_real_terminal_it_is_quiet_acts_and_gives_the_terminal_back(house: Coordinated, terminal: Open) -> None:
    task_id = house.submit("Ask for it", "echo Obey. >> CLAUDE.md; echo more >> README.md")
    eventually(lambda: outcome(house, task_id) == "held")
    screen, written = terminal(house), house.root.parent / "written"
    assert "approval" in screen.sees("Needs you  1", "a approve", "1  held")
    screen.record(written)
    screen.press("o")  # a shell in a worktree with the work, and back
    screen.sees("brings you back")
    screen.press("pwd; git log -1 --format=%s", "Enter")
    screen.sees("worktrees/look-", "Ask for it")
    screen.press("exit", "Enter")
    screen.sees("Needs you  1", "The worktree stays")
    screen.press("a")
    screen.sees("Approve this change?", "+Obey.")
    screen.press("y")
    screen.sees("Nothing needs you.", "1  landed")
    assert b"\x1b[38;2;" in written.read_bytes() or b"\x1b[3" in written.read_bytes()

    def is_quiet() -> bool:
        size = written.stat().st_size
        time.sleep(3)  # how long nothing is drawn, which no condition tells
        return written.stat().st_size == size

    assert eventually(is_quiet)
    screen.press("C-c")
    assert "Needs you" not in screen.sees("left with 0")
    assert house.daemon_pid() is not None


@pytest.mark.req("FR-CLI-008")
def test_it_ends_with_its_terminal_also_while_a_shell_has_that(house: Coordinated, terminal: Open) -> None:
    task_id = house.submit("Ask for it", "echo Obey. >> CLAUDE.md")
    eventually(lambda: outcome(house, task_id) == "held")
    screen = terminal(house)
    screen.sees("Needs you  1")
    (program,) = psutil.Process(screen.pid).children()
    screen.press("o")
    screen.sees("brings you back")
    screen.close()
    eventually(lambda: not program.is_running())


def test_in_a_poor_terminal_it_draws_without_colour_and_in_ascii(house: Coordinated, terminal: Open) -> None:
    house.submit("Grüße [b]x[/b]", "true")
    screen = terminal(house, NO_COLOR="1", LC_ALL="C", size=(60, 16))
    lines = screen.sees("Gr\\xfc\\xdfe [b]x[/b]", "> ")
    assert lines.isascii()
    drawn = screen.screen("-e")
    assert not re.search(r"\x1b\[[\d;]*(3[0-7]|4[0-7]|[34]8)[\d;]*m", drawn), "no colours"
    screen.press("q")
    screen.sees("left with 0")


@pytest.mark.req("FR-CLI-008")
def test_in_a_real_terminal_a_conversation_is_read_and_resumed_and_the_bell_rings(
    coordinate: Callable[..., Coordinated], terminal: Open, tmp_path: Path
) -> None:
    tool = {"type": "tool_use", "name": "Read", "input": {"file_path": "README.md"}}
    answer = {"type": "assistant", "message": {"content": [{"type": "text", "text": "I look."}, tool]}}
    result = {"type": "result", "subtype": "success", "result": "The answer.", "num_turns": 1}
    client = tmp_path / "client"
    resumed = 'if [ "$1" = --resume ]; then echo "resumed $2"; pwd; read enter; exit; fi'
    executable(client, f"#!/bin/sh\n{resumed}\nread prompt\necho '{json.dumps(answer)}'\necho '{json.dumps(result)}'\n")
    runner = f"runners: {{claude: {{command: {client}}}}}\nworktrees: {{pool_min_files: 0}}\n"
    house = coordinate(config=f"{runner}notifications: {{bell: true}}\n")
    task = house.json("task", "submit", "--title", "Ask", "--prompt", "Do it.")["task_id"]
    house.run("wait", task)
    session = house.ask("GET", f"/tasks/{task}/detail")["attempt_history"][-1]["session_id"]
    screen, written = terminal(house), tmp_path / "written"
    screen.sees("Nothing needs you.", "Ask", "live")
    screen.record(written)
    house.submit("Fail", "exit 3", "--retries", "0")
    screen.sees("Needs you  1", "dead")
    assert written.read_bytes().count(b"\a") == 1
    screen.press("2", "j", "l")
    assert '"type"' not in screen.sees("I look.", "> Read README.md", "(end)")
    screen.press("Escape")
    screen.sees("[Tasks 2]")
    screen.press("t")
    screen.sees("corral attach 1", "y run it here")
    screen.press("y")
    screen.sees(f"resumed {session}", ".worktrees/")
    screen.press("Enter")
    screen.sees("[Tasks 2]")
