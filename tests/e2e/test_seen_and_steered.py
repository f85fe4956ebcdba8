"""Forty tasks, six sessions of the real client: what needs a person is found and settled in either face, and all agree."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.config.account import user_name
from tests.conftest import git
from tests.e2e.busy_shop import ALL, SETTINGS, VERIFY, Shop, make_repository
from tests.e2e.client import trust
from tests.e2e.team import ROOT, Team
from tests.integration.test_metrics import families
from tests.integration.test_web_browser import Window, launched
from tests.support.coordinated import eventually
from tests.support.programs import requires
from tests.support.tmux import Tmux

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = [
    pytest.mark.e2e,
    requires("chromium", "tmux"),
]


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Tmux]:
    made = Tmux(tmp_path)
    yield made
    made.end()


@pytest.fixture
def shop(
    start_team: Callable[..., Team], terminals: Tmux, claude: Path, tmp_path: Path, sealed: Path
) -> Iterator[Shop]:
    """The shop on a busy day."""
    root = make_repository(tmp_path / "shop")
    trust(sealed, root)
    config = yaml.safe_dump({**SETTINGS, "runners": {"claude": {"command": str(claude)}}})
    made = Shop(start_team(root=root, verify=(VERIFY,), config=config), claude, terminals)
    made.open()
    yield made
    made.close()


def facts(shop: Shop, tasks: int, *, failed: int = 0) -> Any:
    """The status as JSON, once the metrics and the audit say the same.

    Args:
        failed: How many failed and were tried again: the counters keep them.
    """
    view = shop.house.json("status")
    scraped = families(shop.house)

    def gauge(name: str) -> dict[str, int]:
        return {
            labels[0]: int(value)
            for (name_of_sample, labels), value in scraped.items()
            if name_of_sample == f"corral_{name}"
        }

    assert sum(view["tasks"].values()) == tasks
    assert gauge("tasks") == view["tasks"] and gauge("merges") == view["merges"]
    assert gauge("needs_you") == Counter(need["kind"] for need in view["needs_you"])
    assert gauge("sessions") == Counter(row["status"] for row in view["sessions"])
    ended = Counter[str]()
    for (name, labels), value in scraped.items():
        if name == "corral_tasks_finished_total":
            (outcome,) = {"completed", "failed", "cancelled"} & {*labels}
            ended[outcome] += int(value)
    failed += view["tasks"].get("dead", 0)
    assert ended == Counter(completed=view["tasks"]["completed"], failed=failed, cancelled=1)

    def of_audit() -> list[dict[str, Any]] | None:
        """The lines, once they say what landed: they are written up to a second after the deed."""
        lines: list[dict[str, Any]] = shop.house.json("audit", "--limit", "2000")
        landed = [line for line in lines if line["action"] == "merge.landed"]
        return lines if len(landed) == view["merges"]["landed"] else None

    lines = eventually(of_audit)
    submitted = {line["task_id"] for line in lines if line["action"] == "task.submitted"}
    assert len(submitted) == tasks
    began = {(line["agent_id"], line["task_id"]) for line in lines if line["action"] == "task.claimed"}
    assert began >= {(row["agent"], row["task_id"]) for row in view["at_work"]}, "who works on what"
    dead = {line["task_id"] for line in lines if line["action"] == "task.dead"}
    assert dead >= {need["ids"]["task_id"] for need in view["needs_you"] if need["kind"] == "failed_task"}
    held = {line["task_id"] for line in lines if line["action"] == "merge.held"}
    assert held >= {need["ids"]["task_id"] for need in view["needs_you"] if need["kind"] == "merge_approval"}
    return view


def deeds(shop: Shop, action: str, number: int = 1) -> list[tuple[str, str, str]]:
    """So many lines of the audit: who did it, to which task, and how it ended; the latest first."""
    rows = eventually(lambda: (rows := shop.house.json("audit", "--action", action)) and len(rows) >= number and rows)
    return [(line["agent_id"], line["task_id"], line["result"]["status"]) for line in rows]


def settle_in_the_screen(shop: Shop, terminals: Tmux) -> None:
    """What somebody does who knows nothing but what the screen says."""
    env = {**shop.team.env, "PYTHONPATH": str(ROOT / "daemon")}
    screen = terminals.open([sys.executable, "-m", "corral", "-i"], cwd=shop.team.repo, env=env, size=(100, 30))
    first = screen.sees("Needs you  3", f"[Tasks {ALL}]", "8 running", "Agents 14", "a approve", "r retry", "? help")
    needs = first.splitlines()[3:6]
    assert [line[2:13].strip() for line in needs] == ["approval", "question", "dead"]
    assert "Describe how to test: it changes CLAUDE.md" in needs[0] and "Import the catalogue" in needs[2]

    screen.press("a")
    screen.sees("Approve this change?", "Describe how to test  corral/task-", "+Run pytest -q before each commit.")
    screen.press("y")
    asking = " ".join(screen.sees("Needs you  2", "permission for Write of deploy.sh", "its terminal pts/").split())
    assert "It was asked: Change how we deploy." in asking
    named = re.search(r"its terminal (pts/\d+)", asking)
    assert named and f"/dev/{named[1]}" == shop.person.tty, "the person finds the terminal that asks"
    shop.person.press("Enter")

    screen.sees("Needs you  1", "catalogue.csv': No such file or directory")
    screen.press("l")
    screen.sees("reading ", "(end)")
    shop.mount.mkdir()
    (shop.mount / "catalogue.csv").write_text("1;tea\n")
    screen.press("Escape")  # a terminal takes it for Alt where another key follows at once
    screen.sees("d dismiss")
    screen.press("r")
    screen.sees("Nothing needs you.", "8 running")
    screen.press("q")


def settle_in_the_page(shop: Shop) -> None:
    """The same for what came up since, in a browser."""
    with sync_api.sync_playwright() as play:
        browser = launched(play)
        window = Window(browser)
        page, see = window.page, sync_api.expect
        page.goto(shop.house.run("web", "--no-open").stdout.strip())
        cards = page.locator("#needs .card")
        see(cards).to_have_count(3)
        see(page.locator("#work h2 .count")).to_have_text("8")

        page.get_by_role("link", name="Look and approve").click()
        see(page.locator(".diff")).to_contain_text("+Two people look.")
        page.get_by_role("button", name="Approve this change").click()
        see(page.locator("#head")).to_contain_text("landed")
        see(page.locator("#output")).to_contain_text("41 passed")
        page.get_by_role("link", name="2 need you").click()

        card = cards.filter(has_text="Import the prices")
        see(card).to_contain_text("line 7: no number")
        card.get_by_role("link", name="Dismiss").click()
        page.get_by_role("button", name="Dismiss it").click()
        page.get_by_role("link", name="1 needs you").click()

        card = cards.filter(has_text="Rename the header")
        see(card).to_contain_text("src/page.html")
        card.get_by_role("link", name="Dismiss").click()
        page.get_by_role("button", name="Dismiss it").click()
        see(page.locator("#waiting")).to_be_empty()
        page.get_by_role("link", name="Now").click()
        see(page.locator("#needs")).to_contain_text("Nothing waits for you.")
        assert window.complaints == []
        browser.close()


@pytest.mark.slow("Forty tasks and nine real clients are started, and used from a real terminal and a real browser.")
@pytest.mark.req("FR-CLI-008", "FR-MONITOR-002", "FR-MONITOR-003", "FR-MONITOR-004")
def test_three_things_that_need_a_person_are_found_and_settled_in_the_screen_and_three_in_the_page(
    shop: Shop, terminals: Tmux
) -> None:
    me = user_name()
    before = facts(shop, ALL)
    assert {need["kind"]: need["ids"] for need in before["needs_you"]}.keys() == shop.needs.keys()
    assert len(before["at_work"]) == 8 and len(before["sessions"]) == 14
    (asking,) = [row["agent_name"] for row in before["sessions"] if row["session_id"] == shop.needs["waiting_session"]]

    settle_in_the_screen(shop, terminals)
    assert (shop.team.repo / "deploy.sh").read_text() == "echo go\n"
    assert facts(shop, ALL, failed=1)["needs_you"] == []
    assert deeds(shop, "merge.approve") == [(me, before["needs_you"][0]["ids"]["task_id"], "ok")]
    assert deeds(shop, "task.retry") == [(me, shop.needs["failed_task"], "ok")]
    assert (asking, "ok") in [(agent, result) for agent, _, result in deeds(shop, "tool.Write", 7)]

    mended, first = shop.needs["failed_task"], shop.needs
    shop.add_more_needs()
    assert shop.needs.keys() != first.keys()
    eventually(lambda: shop.outcome(mended) == "landed")
    assert git(shop.team.repo, "show", "main:src/catalogue.csv") == "1;tea"
    assert Counter(need["kind"] for need in facts(shop, ALL + 2, failed=1)["needs_you"]) == Counter(shop.needs.keys())
    settle_in_the_page(shop)
    assert facts(shop, ALL + 2, failed=1)["needs_you"] == []
    assert [(agent, result) for agent, _, result in deeds(shop, "merge.approve", 2)] == [(me, "ok")] * 2
    assert [(agent, result) for agent, _, result in deeds(shop, "merge.dismiss", 2)] == [(me, "ok")] * 2
    assert shop.house.run("audit", "--verify").returncode == 0
