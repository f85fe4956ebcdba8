"""What the mod draws, in a real terminal: band, pane, buttons and the native dialog; its pictures are in ``docs/images``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit, commit_all, git
from tests.e2e.client import trust
from tests.e2e.stage import script, text, tool
from tests.e2e.team import PLUGIN, Team
from tests.support import pictures
from tests.support.coordinated import eventually
from tests.support.files import put
from tests.support.programs import requires
from tests.support.tmux import Tmux
from tests.support.worlds import stopped_for_good

pytestmark = [pytest.mark.e2e, requires("tmux")]

COLUMNS = 150


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Tmux]:
    made = Tmux(tmp_path)
    yield made
    made.end()


def insist(act: Callable[[], None], is_done: Callable[[], Any]) -> None:
    """Act again until it has an effect: the client draws a thing a moment before it listens to it."""
    for _ in range(6):
        act()
        with contextlib.suppress(AssertionError):
            eventually(is_done, deadline_s=5)
            return
    raise AssertionError("it had no effect")


def test_nothing_is_shown_that_may_not_be_true_any_more(
    team: Team, terminals: Tmux, claude: Path, sealed: Path
) -> None:
    trust(sealed, team.repo)
    argv = [str(claude), *PLUGIN, "--permission-mode", "acceptEdits"]
    window = terminals.open(argv, cwd=team.repo, env=team.env, size=(COLUMNS, 42))
    window.sees("main is not verified")
    with stopped_for_good(team.house):
        band = window.sees("Corral's daemon does not answer. `corral doctor` says why.")
        assert "main is" not in band
        window.type("/corral queue")
        window.sees("/corral queue")
        window.press("Enter")
        window.sees("corral: Corral's daemon does not answer.")
    team.house.run("daemon", "start")
    window.sees("main is not verified")


def test_a_setting_turns_all_of_it_off(team: Team, terminals: Tmux, claude: Path, sealed: Path) -> None:
    trust(sealed, team.repo)
    put(
        sealed / ".claude" / "settings.json",
        json.dumps({"pluginConfigs": {"corral@inline": {"options": {"screen": False}}}}),
    )
    team.house.run("lock", "acquire", "cart.py")
    argv = [str(claude), *PLUGIN, "--permission-mode", "acceptEdits"]
    window = terminals.open(argv, cwd=team.repo, env=team.env, size=(COLUMNS, 42))
    window.sees("accept edits on")
    window.paste(script(tool("Write", file_path="$CWD/cart.py", content="x"), text("It is held.")))
    window.press("Enter")
    screen = window.sees("Error: cart.py is held by", "● It is held.")
    assert "Corral: cart.py" not in screen and "main is" not in screen


def test_a_person_sees_the_queue_in_the_pane_approves_what_it_shows_and_lands_the_branch(
    start_team: Callable[..., Team], terminals: Tmux, claude: Path, sealed: Path
) -> None:
    team = start_team()
    house, repo = team.house, team.repo
    commit_all(repo, "Coordinate with Corral", ".corral", ".claude")
    first = house.submit("Say hello", "echo hello > hello.txt")
    team.until(lambda: house.ask("GET", f"/tasks/{first}/detail")["outcome"] == "landed")
    task = house.submit("Describe how to test", "echo 'Run pytest -q before each commit.' >> CLAUDE.md")
    git(repo, "switch", "-qc", "checkout-page")
    commit(repo, {"checkout.py": "page = 1\n"}, "Add the checkout page")
    house.run("lock", "acquire", "cart.py")
    team.until(lambda: house.ask("GET", f"/tasks/{task}/detail")["outcome"] == "held")

    trust(sealed, repo)
    argv = [str(claude), *PLUGIN, "--permission-mode", "acceptEdits"]
    window = terminals.open(argv, cwd=repo, env=team.env, size=(COLUMNS, 42))
    window.sees("main is green | others hold 1 | 1 for you")
    window.paste(
        script(tool("Write", file_path="$CWD/cart.py", content="x"), text("cart.py is held, so I left it out."))
    )
    window.press("Enter")
    window.sees("Corral: cart.py is held by", "so I left it out.")
    window.type("/corral")
    window.sees("Show what Corral knows")
    window.press("Enter")
    window.sees("[ Approve ]", "[ Land this branch ]", "1. Describe how to test", "cart.py root")
    pictures.take(window, "mod")

    insist(lambda: window.click("[ Approve ]"), lambda: "2. Not now" in window.screen())
    window.sees("+Run pytest -q before each commit.", "1. Approve", "2. Not now")
    pictures.take(window, "mod-approve")
    insist(lambda: window.press("Down"), lambda: "❯ 2. Not now" in window.screen())
    insist(lambda: window.press("Enter"), lambda: "Not now" not in window.screen())
    assert house.ask("GET", f"/tasks/{task}/detail")["outcome"] == "held"
    insist(lambda: window.click("[ Approve ]"), lambda: "❯ 1. Approve" in window.screen())
    insist(lambda: window.press("Enter"), lambda: "Not now" not in window.screen())
    team.until(lambda: house.ask("GET", f"/tasks/{task}/detail")["outcome"] == "landed")
    window.sees("Nothing waits to land.")
    team.until(lambda: house.ask("GET", "/status")["needs_you"] == [])

    landed = lambda: "checkout.py" in git(repo, "ls-tree", "--name-only", "main")  # noqa: E731
    insist(lambda: window.click("[ Land this branch ]"), landed)
    assert "skipped" not in window.screen()
