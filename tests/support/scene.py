"""A project with a day's work: three things that need a person, and tasks, sessions, locks and mail around them.

``python -m tests.support.scene FOLDER PICTURE.svg`` makes one, leaves its daemon running, and draws its screen; drawn by a
browser, that picture is ``docs/images/interactive.png``.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from tests.conftest import commit, git
from tests.support.coordinated import Coordinated, eventually
from tests.support.screens import Player, play

PAGE = "<main>\n  <h1>The shop</h1>\n</main>\n"
BUSY = (
    ("Add the search page", "writing src/search.py", 4),
    ("Sort products by price", "running 41 tests", 5),
    ("Cache the price list", "reading src/prices.py", 6),
    ("Log failed logins", "31 of 41 tests passed", 5),
    ("Translate the checkout", "translating 118 texts", 3),
    ("Validate postal codes", "writing tests/test_postal.py", 5),
    ("Send the receipt by mail", "reading src/mail.py", 5),
    ("Export orders as CSV", "writing src/export.py", 4),
)
LATER = (
    "Limit the login rate", "Show stock in the list",
    "Measure the page load", "Remove the old cart", "Round prices per line", "Test the discount rules",
)  # fmt: skip
SESSIONS = (
    ("GreenLake", "Refactor the cart", "src/cart.py"),
    ("BoldHarbor", "Write the API guide", "docs/api.md"),
    ("QuietRiver", "Fix the flaky login test", "tests/test_login.py"),
)


def make_repository(root: Path) -> Coordinated:
    """A repository of a shop, coordinated, whose tests need a moment."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", "-b", "main")
    files = {
        "src/page.html": PAGE,
        "CLAUDE.md": "Run the tests.\n",
        "src/cart.py": "items = []\n",
        "docs/api.md": "# API\n",
    }
    commit(root, {**files, "tests/test_login.py": "def test_login() -> None: ...\n"}, "A shop")
    house = Coordinated(root)
    house.run("init", "--yes", "--no-check", "--verify", "true")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Coordinate with Corral")
    settings = "tasks: {max_retries: 0}\nsupervisor: {max_agents: 8}\n"
    house.configure(settings)
    return house


def add_needs(house: Coordinated) -> dict[str, str]:
    """A conflict, a dead task and a merge that waits for an approval; the ids of their tasks by those names."""
    header = "sed -i 's/The shop/The {0}/' src/page.html; while [ ! -e {1} ]; do sleep 0.05; done"
    gate = house.root.parent / "header-go"
    conflict = house.submit("Rename the header", header.format("corner shop", gate), "--priority", "8")
    eventually(lambda: _outcome(house, conflict) == "running")
    first = house.submit("Shorten the header", "sed -i 's/The shop/Shop/' src/page.html")
    eventually(lambda: _outcome(house, first) == "landed")
    gate.touch()
    why = "echo 'catalogue.csv: line 4711: price is no number' >&2; exit 3"
    dead = house.submit("Import the catalogue", f"echo 'reading catalogue.csv'; {why}", "--retries", "1")
    approval = house.submit("Describe how to test", "echo 'Run pytest -q before each commit.' >> CLAUDE.md")
    wanted = {"conflict": conflict, "dead": dead, "held": approval}
    for outcome, task_id in wanted.items():
        eventually(partial(_is, house, task_id, outcome))
    return wanted


def _is(house: Coordinated, task_id: str, outcome: str) -> bool:
    return _outcome(house, task_id) == outcome


def _outcome(house: Coordinated, task_id: str) -> str:
    return str(house.ask("GET", f"/tasks/{task_id}/detail")["outcome"])


def add_work(house: Coordinated) -> None:
    """Landed, running and waiting tasks, sessions with locks, and mail."""
    for number in range(12):
        house.submit(f"Tidy module {number + 1}", f"echo tidy > src/tidy{number}.txt")
    eventually(lambda: len(house.ask("GET", "/merges", query={"state": "landed"})) >= 13)
    for title, step, priority in BUSY:
        house.submit(title, f"while sleep 1; do echo '{step}'; done", "--priority", str(priority))
    for title in LATER:
        house.submit(title, "sleep 3600", "--priority", "2")
    for name, task, path in SESSIONS:
        key = name.lower()
        body = {"session_id": f"session-{key}", "agent_name": name, "current_task": task, "cwd": str(house.root)}
        house.ask("POST", "/sessions", body)
        house.edit(f"session-{key}", path)
    keys = {"paths": ["src/api/**"], "session_id": "session-boldharbor", "reason": "the API is being renamed"}
    house.ask("POST", "/locks/acquire", keys)
    letters = (
        ("session-greenlake", "QuietRiver", "May I have src/cart.py?", "I only rename a field.", "high"),
        ("session-quietriver", "GreenLake", "Re: May I have src/cart.py?", "In five minutes.", "normal"),
        ("session-boldharbor", "all", "The API has new names", "See docs/api.md; old names go on Friday.", "normal"),
    )
    for sender, to, subject, text, importance in letters:
        letter = {"session_id": sender, "to": [to], "subject": subject, "body": text, "importance": importance}
        house.ask("POST", "/messages", letter)
    eventually(lambda: len(house.ask("GET", "/tasks", query={"status": "running"})) >= len(BUSY))


def main(folder: str, picture: str | None = None) -> None:
    """Make one, leave it running, and draw its screen into an SVG file."""
    house = make_repository(Path(folder))
    add_needs(house)
    add_work(house)

    async def script(player: Player) -> None:
        await player.sees("Needs you  3", "31 of 41 tests", "Agents 11")
        await player.press("j")
        await player.sees("Press r to retry")
        Path(str(picture)).write_text(player.app.export_screenshot(title="corral interactive"))

    if picture is not None:
        play(house, script, (104, 30))


if __name__ == "__main__":
    main(*sys.argv[1:])
