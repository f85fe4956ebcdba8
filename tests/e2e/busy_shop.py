"""A busy day in the repository of a shop: forty tasks, six sessions of the real client, and three things for a person.

``python -m tests.e2e.busy_shop FOLDER`` makes one and keeps it until it is interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import commit, git
from tests.e2e.client import client_environment, find_client, trust
from tests.e2e.stage import Stage, Step, bash, script, text, tool
from tests.e2e.team import PLUGIN, Member, Team, corral_command
from tests.support.coordinated import Coordinated, eventually
from tests.support.tmux import Tmux, Window

PAGE = "<main>\n  <h1>The shop</h1>\n</main>\n"
FILES = {
    "src/page.html": PAGE,
    "src/cart.py": "items = []\n",
    "src/prices.py": "prices = {}\n",
    "docs/api.md": "# API\n",
    "tests/test_login.py": "def test_login() -> None: ...\n",
    "scripts/test.sh": "ls src tests > /dev/null && echo '41 passed in 0.20s'\n",
    "CLAUDE.md": "Run the tests.\n",
}
VERIFY = "sh scripts/test.sh"
SETTINGS: dict[str, Any] = {"tasks": {"max_retries": 0, "retry_initial_s": 0.1}, "supervisor": {"max_agents": 8}}
TIDIED = 17
BUSY = (
    ("Add the search page", "writing src/search.py"), ("Sort products by price", "running 41 tests"),
    ("Cache the price list", "reading src/prices.py"), ("Log failed logins", "31 of 41 tests passed"),
    ("Validate postal codes", "writing tests/test_postal.py"), ("Send the receipt by mail", "reading src/mail.py"),
)  # fmt: skip
LATER = (
    "Limit the login rate", "Show stock in the list", "Measure the page load", "Remove the old cart",
    "Round prices per line", "Test the discount rules", "Write the release notes",
)  # fmt: skip
ALL = 40


class Shop:
    """The repository with all that goes on in it.

    Attributes:
        needs: The ids of what needs a person, by kind: of a merge request, of a task, and of a session.
        mount: The folder without which the task that died cannot work.
        person: The terminal of the session that waits for a permission.
    """

    needs: Mapping[str, str]
    person: Window
    members: list[Member]

    def __init__(self, team: Team, claude: Path, terminals: Tmux) -> None:
        self.team, self.house, self._claude, self._terminals = team, team.house, claude, terminals
        self.mount, self._gate = team.repo.parent / "mnt", team.repo.parent / "closing-time"

    def open(self) -> None:
        """Let the day begin; returns when all is as it stays until somebody acts."""
        self._finish_some_tasks()
        self._add_needs()
        self._start_sessions()
        self._start_tasks()
        eventually(self._is_at_work)

    def _is_at_work(self) -> bool:
        view = self.house.ask("GET", "/status")
        running = [row for row in view["at_work"] if row["state"] == "running" and row["step"]]
        return len(running) == len(BUSY) + 2 and len(view["sessions"]) == len(running) + 6

    def outcome(self, task_id: str) -> str:
        """The outcome of a task."""
        return str(self.house.ask("GET", f"/tasks/{task_id}/detail")["outcome"])

    def _has_outcome(self, task_id: str, outcome: str) -> bool:
        return self.outcome(task_id) == outcome

    def submit(self, *tasks: Mapping[str, Any]) -> list[str]:
        """Submit tasks in one request; their ids."""
        return list(self.house.ask("POST", "/tasks/batch", {"tasks": list(tasks)})["task_ids"])

    def _finish_some_tasks(self) -> None:
        words = script(
            tool("Write", file_path="$CWD/src/terms.md", content="Be kind.\n"), text("The terms are written.")
        )
        tidy = [{"title": f"Tidy module {n + 1}", "command": f"echo tidy > src/tidy{n}.txt"} for n in range(TIDIED)]
        tried = self.team.repo.parent / "tried"
        twice = f"test -e {tried} || {{ touch {tried}; echo 'The registry does not answer.'; exit 1; }}; echo 2 > src/deps.txt"
        self.submit(
            *tidy,
            {"title": "Shorten the header", "command": "sed -i 's/The shop/Shop/' src/page.html"},
            {"title": "Write the terms", "prompt": words},
            {"title": "Update the dependencies", "command": twice, "max_retries": 1},
        )
        (cancelled,) = self.submit({"title": "Rewrite it all", "command": self._work("thinking"), "priority": 1})
        eventually(lambda: self.outcome(cancelled) == "running")
        self.house.ask("POST", f"/tasks/{cancelled}/cancel", {"reason": "Too large."})
        eventually(lambda: self.house.ask("GET", "/status")["merges"].get("landed") == TIDIED + 3)

    def _add_needs(self) -> None:
        dead, held = self.submit(
            {
                "title": "Import the catalogue",
                "command": f"echo 'reading {self.mount}/catalogue.csv'; cp {self.mount}/catalogue.csv src/ || exit 3",
            },
            {"title": "Describe how to test", "command": "echo 'Run pytest -q before each commit.' >> CLAUDE.md"},
        )
        for task_id, outcome in ((dead, "dead"), (held, "held")):
            eventually(partial(self._has_outcome, task_id, outcome))
        merge = self.house.ask("GET", f"/merges/{held}")["merge_id"]
        self.needs = {"merge_approval": merge, "failed_task": dead}

    def add_more_needs(self) -> None:
        """Three more things for a person: an approval, a dead task, and a branch that came back with a conflict."""
        dead, held = self.submit(
            {
                "title": "Import the prices",
                "command": "echo 'prices.csv: line 7: no number' >&2; exit 4",
                "priority": 9,
            },
            {"title": "Describe how to review", "command": "echo 'Two people look.' >> CLAUDE.md", "priority": 9},
        )
        conflict = self.house.json("merge", "submit", "header", "--title", "Rename the header")["merge_id"]
        (self._gate.parent / "done-0").touch()
        for task_id, outcome in ((dead, "dead"), (held, "held")):
            eventually(partial(self._has_outcome, task_id, outcome))
        eventually(lambda: self.house.ask("GET", f"/merges/{conflict}")["state"] == "conflict")
        self.needs = {"failed_task": dead, "merge_approval": held, "returned_merge": conflict}

    def _start_sessions(self) -> None:
        """Five sessions that work or rest, and one in a terminal that asks its person for a permission."""
        wait = bash(self._work("at work"), timeout=600_000)
        at_work = (
            ("Refactor the cart", (_write("src/cart.py"), wait)),
            ("Write the API guide", (_lock("src/api/**", "the API is being renamed"), _write("docs/api.md"), wait)),
            ("Fix the flaky login test", (_write("tests/test_login.py"), wait)),
            ("Translate the checkout", (_write("src/checkout.py"), wait)),
        )
        self.members = [self.team.member() for _ in range(5)]
        for member, (asked, steps) in zip(self.members, at_work, strict=False):
            member.begin(*steps, text("Done."), say=asked)
        env, place = self.team.env, self.team.repo
        command = [str(self._claude), *PLUGIN, "--permission-mode", "default"]
        self.person = self._terminals.open(command, cwd=place, env=env, size=(100, 30))
        self.person.sees("? for shortcuts")
        self.person.paste(
            script(
                tool("Write", file_path="$CWD/deploy.sh", content="echo go\n"),
                text("Done."),
                say="Change how we deploy.",
            )
        )
        self.person.press("Enter")
        reader = self.members[4]
        holder = eventually(lambda: self.team.locks().get("src/cart.py"))
        reader.do(
            _mail(self.team.session(holder)["agent_name"], "May I have src/cart.py?", "I only rename a field."),
            say="Review the open branches",
        )
        waiting = eventually(lambda: [row for row in self.team.sessions() if row["waiting_for"]])
        self.needs = {**self.needs, "waiting_session": waiting[0]["session_id"]}

    def _start_tasks(self) -> None:
        busy = [
            {"title": title, "command": self._work(step, f"done-{n}"), "priority": 6}
            for n, (title, step) in enumerate(BUSY)
        ]
        clients = [
            {
                "title": title,
                "prompt": script(_write(file), bash(self._work("at work"), timeout=600_000), text("Done.")),
                "priority": 7,
            }
            for title, file in (("Export orders as CSV", "src/export.py"), ("Count the visitors", "src/visits.py"))
        ]
        ids = self.submit(*clients, *busy)
        first = {"title": LATER[0], "command": self._work("limiting"), "wait_for": ids[:1], "priority": 4}
        self.submit(first, *({"title": title, "command": self._work("later"), "priority": 2} for title in LATER[1:]))
        left = ALL - len(self.house.ask("GET", "/tasks", query={"limit": 100}))
        self.submit(
            *({"title": f"Check page {n + 1}", "command": self._work("later"), "priority": 1} for n in range(left))
        )

    def _work(self, step: str, done: str = "done") -> str:
        """A command that says something now and then until the day ends, or the file ``done`` is there."""
        return f"while [ ! -e {self._gate} ] && [ ! -e {self._gate.parent / done} ]; do echo '{step}'; sleep 2; done"

    def close(self) -> None:
        """End what only waits."""
        self._gate.touch()


def _write(path: str) -> Step:
    return tool("Write", file_path=f"$CWD/{path}", content="# new\n")


def _lock(path: str, reason: str) -> Step:
    return tool("mcp__plugin_corral_corral__acquire_lock", file_path=path, reason=reason)


def _mail(to: str, subject: str, body: str) -> Step:
    return tool("mcp__plugin_corral_corral__send_message", to=[to], subject=subject, body_md=body)


def make_repository(root: Path) -> Path:
    """The shop's repository."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    commit(root, FILES, "A shop")
    git(root, "switch", "-q", "-c", "header")
    commit(root, {"src/page.html": PAGE.replace("The", "The corner")}, "Rename the header")
    git(root, "switch", "-q", "main")
    return root


@contextmanager
def alone(folder: Path) -> Iterator[tuple[Shop, Tmux]]:
    """The same outside of a test."""
    claude, home = find_client(), folder / "home"
    assert claude is not None
    root = make_repository(folder / "shop")
    trust(home, root)
    with Stage() as stage, ExitStack() as stack, tempfile.TemporaryDirectory(prefix="corral-run-") as runtime:
        extra = {"XDG_RUNTIME_DIR": runtime, "GIT_CONFIG_NOSYSTEM": "1"}
        env = client_environment(stage, home, path=str(corral_command(folder / "bin").parent), extra=extra)
        os.environ.clear()
        os.environ.update(env)
        house = Coordinated(root)
        house.run("init", "--yes", "--no-check", "--verify", VERIFY)
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "Coordinate with Corral")
        house.configure(yaml.safe_dump({**SETTINGS, "runners": {"claude": {"command": str(claude)}}}))
        stack.callback(house.stop)
        terminals = Tmux(folder)
        stack.callback(terminals.end)
        shop = Shop(Team(house, claude, env, stage, folder, stack), claude, terminals)
        stack.callback(shop.close)
        shop.open()
        yield shop, terminals


def main(folder: str) -> None:
    """Make one, and keep it."""
    began, ended = time.monotonic(), threading.Event()
    with alone(Path(folder).resolve()) as (shop, _):
        print(f"open after {time.monotonic() - began:.1f} s", flush=True)
        (Path(folder) / "env").write_text("\n".join(f"export {key}='{value}'" for key, value in os.environ.items()))
        signal.signal(signal.SIGTERM, lambda *_: ended.set())
        while not ended.wait(1):
            if (more := Path(folder) / "more").exists():
                more.unlink()
                shop.add_more_needs()


if __name__ == "__main__":
    main(sys.argv[1])
