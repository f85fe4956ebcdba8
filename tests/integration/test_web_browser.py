"""The web view in a real browser: headless Chromium, driven from outside."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browsing import link
from tests.support.coordinated import Coordinated, eventually
from tests.support.programs import MACHINE, program, requires
from tests.support.scene import add_needs, make_repository

OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
WAIT_MS = 30_000
SESSION = "5e1d0000-0000-4000-8000-000000000001"

pytestmark = requires("chromium")
sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")


def launched(play: Any) -> Any:
    """A browser, with a new, empty profile; it takes what it wants of the machine."""
    env = {**os.environ, "PATH": MACHINE}
    return play.chromium.launch(executable_path=program("chromium"), args=OPTIONS, env=env)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser for all tests of this module."""
    with sync_api.sync_playwright() as play:
        browser = launched(play)
        yield browser
        browser.close()


class Window:
    """A browser of its own, with its own cookies; what a page complains about is kept."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.context.set_default_timeout(WAIT_MS)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", self._noted)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    def _noted(self, message: Any) -> None:
        expected = (
            "ERR_CONNECTION_REFUSED",
            "ERR_INCOMPLETE_CHUNKED",
            "ERR_EMPTY_RESPONSE",
            "status of 403",
            "ERR_CONNECTION",
        )
        if message.type in ("error", "warning") and not any(word in message.text for word in expected):
            self.complaints.append(message.text)


@pytest.fixture
def window(chromium: Any) -> Iterator[Callable[..., Window]]:
    made: list[Window] = []

    def opened(**options: Any) -> Window:
        made.append(Window(chromium, **options))
        return made[-1]

    yield opened
    for window in made:
        window.context.close()


def _violations(page: Any) -> list[str]:
    """What axe finds wrong with a page: rule, and the elements."""
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    violations = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {[node['html'][:160] for node in rule['nodes'][:3]]}" for rule in violations]


@pytest.mark.req("FR-MONITOR-002")
def test_a_person_sees_what_needs_them_as_it_happens_and_settles_it_in_the_page(
    coordinate: Callable[..., Coordinated], window: Callable[..., Window]
) -> None:
    house = coordinate(config="tasks: {max_retries: 0}\nsupervisor: {max_agents: 2}\n")
    house.hook("SessionStart", SESSION, source="startup")
    house.edit(SESSION, "src/a.py")
    runs = house.submit("Index the search", "for i in $(seq 600); do echo pass $i; sleep 1; done")
    stranger, person = window(), window()
    url = house.run("web", "--no-open").stdout.strip()
    base = url.partition("/enter")[0]

    stranger.page.goto(base)
    assert "corral web" in stranger.page.inner_text("main")
    assert "Index the search" not in stranger.page.content()
    assert _violations(stranger.page) == []

    page = person.page
    page.goto(url)
    assert page.url == f"{base}/"
    sync_api.expect(page.locator("#pulse")).to_contain_text("live")
    sync_api.expect(page.locator("#needs h2")).to_contain_text("Needs you")
    page.evaluate("window.stays = true")

    # live: a task fails, and stands there first, without the page being loaded again
    house.submit("Break <img src=x onerror=alert(1)>", "echo no luck; exit 3")
    card = page.locator("#needs .card")
    sync_api.expect(card).to_contain_text("Break <img src=x onerror=alert(1)>")
    assert page.evaluate("window.stays") is True
    assert page.locator("#needs img").count() == 0

    # it acts: once at once, once with a question before
    card.get_by_role("link", name="Dismiss").click()
    sync_api.expect(page.get_by_role("heading", level=1)).to_contain_text("Dismiss")
    page.get_by_role("button", name="Dismiss it").click()
    sync_api.expect(page.get_by_role("status").filter(has_text="Dismissed")).to_be_visible()
    page.goto(base)
    sync_api.expect(page.locator("#needs")).to_contain_text("Nothing waits for you")
    page.get_by_role("link", name="Index the search").first.click()
    sync_api.expect(page.locator("#log")).to_contain_text("pass 1")
    before = page.inner_text("#log")
    sync_api.expect(page.locator("#log")).not_to_have_text(before)  # the log goes on by itself
    page.get_by_role("link", name="Cancel").click()
    page.get_by_role("link", name="Leave it as it is").click()
    assert house.ask("GET", f"/tasks/{runs}/detail")["cancel_reason"] is None

    # every page is accessible, on a phone and in the dark too, and none is wider than the screen
    pages = ["/", f"/tasks/{runs}", "/queue", "/sessions", f"/sessions/{SESSION}", "/timeline", f"/tasks/{runs}/cancel"]
    narrow = window(
        viewport={"width": 400, "height": 800}, color_scheme="dark", storage_state=person.context.storage_state()
    )
    page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert len(_violations(page)) == 1  # the check would see it
    for path in pages:
        page.goto(base + path)
        assert _violations(page) == [], path
        narrow.page.goto(base + path)
        assert narrow.page.evaluate("document.documentElement.scrollWidth") <= 400, path
    narrow.page.goto(f"{base}/tasks")
    box = narrow.page.locator("td .unseen").first.bounding_box()
    assert box and box["width"] > 20, "a number without its column's head says what it is"
    narrow.page.goto(base)
    assert _violations(narrow.page) == []  # the colours of the dark

    page.goto(f"{base}/tasks/{runs}")
    page.get_by_role("link", name="Cancel").click()
    page.get_by_label("Why").fill("It takes too long.")
    page.get_by_role("button", name="Cancel the task").click()
    sync_api.expect(page.locator("#head")).to_contain_text("cancelled")
    assert house.ask("GET", f"/tasks/{runs}/detail")["cancel_reason"] == "It takes too long."

    # without a script everything can be read
    plain = window(java_script_enabled=False, storage_state=person.context.storage_state())
    plain.page.goto(base)
    assert "Nothing waits for you" in plain.page.inner_text("#needs")
    assert [window.complaints for window in (stranger, person, narrow, plain)] == [[], [], [], []]


@pytest.mark.req("FR-MONITOR-002")
def test_a_page_says_when_the_daemon_is_gone_goes_on_when_it_is_back_and_says_when_its_session_is_over(
    coordinate: Callable[..., Coordinated], window: Callable[..., Window]
) -> None:
    house = coordinate()
    browser_window = window()
    page = browser_window.page
    page.goto(link(house))
    trouble, pulse = page.locator("#trouble"), page.locator("#pulse")
    sync_api.expect(pulse).to_contain_text("live")
    house.kill_daemon()
    sync_api.expect(trouble).to_contain_text("does not answer", timeout=WAIT_MS)
    house.submit("While it was away", "sleep 600")  # starts the daemon again
    sync_api.expect(trouble).to_be_hidden(timeout=WAIT_MS)
    sync_api.expect(page.locator("#work")).to_contain_text("While it was away", timeout=WAIT_MS)

    other = browser_window.context.new_page()
    other.goto(page.url)
    other.get_by_role("button", name="End this browser's session").click()
    eventually(lambda: "corral web" in other.inner_text("main"))
    house.submit("One more", "true")
    sync_api.expect(trouble).to_contain_text("corral web", timeout=WAIT_MS)
    assert browser_window.complaints == []


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Coordinated]:
    """A repository in which a conflict, a dead task and an approval need a person."""
    house = make_repository(tmp_path / "shop")
    yield house
    house.stop()


@pytest.mark.req("FR-MONITOR-002")
def test_what_needs_a_person_is_settled_with_the_keys_of_the_terminal_screen(
    shop: Coordinated, window: Callable[..., Window]
) -> None:
    ids = add_needs(shop)
    held = shop.ask("GET", f"/merges/{ids['held']}")["merge_id"]
    browser_window = window()
    page, keyboard = browser_window.page, browser_window.page.keyboard
    page.goto(link(shop))
    home = page.url
    sync_api.expect(page.locator("#pulse")).to_contain_text("live")
    assert page.locator("#needs .kind").all_inner_texts() == ["Approval", "Dead", "Conflict"]
    current, heading = page.locator(".card.current"), page.get_by_role("heading", level=1)

    # the first row is the current one; a key that its buttons do not have does nothing
    sync_api.expect(current).to_contain_text("Describe how to test")
    keyboard.press("r")
    keyboard.press("?")
    dialog = page.get_by_role("dialog")
    sync_api.expect(dialog).to_contain_text("asks first")
    assert not _takes(page, "a"), "nothing behind the list"
    assert _violations(page) == []
    keyboard.press("Escape")
    sync_api.expect(dialog).to_be_hidden()
    assert (page.url, shop.ask("GET", f"/merges/{held}")["state"]) == (home, "held")

    # an approval is asked for, on the diff: Escape leaves it, y gives it
    keyboard.press("a")
    sync_api.expect(heading).to_contain_text("Describe how to test")
    page.wait_for_load_state()  # a key counts once the page's script listens
    keyboard.press("Escape")
    page.wait_for_url("**/merges/*")
    page.goto(home)
    keyboard.press("a")
    sync_api.expect(page.locator(".diff")).to_contain_text("Run pytest -q")
    page.wait_for_load_state()
    keyboard.press("y")
    sync_api.expect(page.get_by_role("status").filter(has_text="Approved")).to_be_visible()
    eventually(lambda: shop.ask("GET", f"/merges/{held}")["state"] == "landed")

    # j and k go from row to row; the row stays the current one when others come before it
    page.goto(home)
    sync_api.expect(current).to_contain_text("Import the catalogue")
    keyboard.press("j")
    keyboard.press("j")
    keyboard.press("k")
    keyboard.press("k")
    keyboard.press("j")
    sync_api.expect(current).to_contain_text("Rename the header")
    again = current.locator("form", has=page.get_by_role("button", name="Retry"))
    assert again.get_attribute("action") == f"/tasks/{ids['conflict']}/retry"  # its commits would conflict again
    shop.submit("Fails meanwhile", "exit 3")
    sync_api.expect(page.locator("#needs .card")).to_have_count(3)
    sync_api.expect(current).to_contain_text("Rename the header")
    assert not _takes(page, "d", "ctrlKey"), "the browser's own keys stay its own"
    keyboard.press("d")
    sync_api.expect(heading).to_contain_text("Rename the header")
    page.wait_for_load_state()
    keyboard.press("y")
    eventually(lambda: shop.ask("GET", f"/tasks/{ids['conflict']}/detail")["outcome"] == "dismissed")
    page.wait_for_url("**done=dismiss*")  # what it leads to is there: else it comes between the next page and this one

    # no key acts while somebody types, or after they turned the keys off
    page.goto(f"{home}tasks/{ids['dead']}/dismiss".replace("/dismiss", "/cancel"))
    page.get_by_label("Why").fill("")
    page.get_by_label("Why").press_sequentially("yes 2 ? d")
    assert page.get_by_label("Why").input_value() == "yes 2 ? d" and page.url.endswith("/cancel")
    page.goto(home)
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("button", name="Turn keys off").click()
    page.get_by_role("button", name="Close").click()
    sync_api.expect(page.locator(".current")).to_have_count(0)
    assert not any(_takes(page, key) for key in ("r", "d", "2", "?")) and not dialog.is_visible()
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("button", name="Turn keys on").click()
    page.get_by_role("button", name="Close").click()
    keyboard.press("2")
    page.wait_for_url("**/tasks")
    keyboard.press("j")
    keyboard.press("Enter")
    page.wait_for_url("**/tasks/*")

    # the row is gone: the key that was meant for it does nothing to the next one
    page.goto(home)
    sync_api.expect(current).to_have_count(1)
    shop.ask("POST", f"/merges/{_current_task(page)}/dismiss")
    sync_api.expect(page.locator("#needs .card")).to_have_count(1)
    assert not _takes(page, "r")
    assert browser_window.complaints == []


def _takes(page: Any, key: str, *with_keys: str) -> bool:
    """Whether the page does something for a key."""
    event = {"key": key, "bubbles": True, "cancelable": True, **dict.fromkeys(with_keys, True)}
    return not page.evaluate(
        "event => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', event))", event
    )


def _current_task(page: Any) -> str:
    return str(page.locator(".card.current").get_attribute("data-row")).split(" ")[-1]
