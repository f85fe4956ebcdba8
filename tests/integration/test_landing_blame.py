"""Nobody is blamed by a run of the target that was of other commands, recipes, programs or variables, or of long ago."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from corral.config.sections.sharing import Landing
from corral.config.sections.work import Worktrees
from corral.core.inputs import Prepared
from corral.core.instants import iso, parse
from corral.core.run_heading import run_heading
from corral.core.states import ReceiptStatus
from corral.landing import runs
from corral.landing.verify import programs
from corral.landing.verify.verification_context import VerificationContext
from corral.landing.verify.verification_receipts import basis
from corral.store.rows.merges import MergeRow, ReceiptRow
from corral.store.schema import receipts as receipt_table
from corral.work.merges.store import merges, receipts
from tests.conftest import git
from tests.integration.landing_world import World, why
from tests.support.files import executable


@pytest.fixture
def world(repo: Path, tmp_path: Path) -> Iterator[World]:
    """The tip has a green receipt; whatever runs is counted, and is red for ``bad.txt``."""
    made = World(repo, landing=verified(tmp_path))
    made.environ["PATH"] = f"{tmp_path / 'bin'}:{made.environ['PATH']}"
    program(tmp_path, "1.0")
    made.branch("good", {"good.txt": "x\n"})
    assert made.land("good")["state"] == "landed"
    (tmp_path / "runs").unlink()
    made.branch("bad", {"bad.txt": "x\n"})
    yield made
    made.close()


def verified(tmp_path: Path, **values: Any) -> Landing:
    return Landing(verify=[f"echo x >> {tmp_path}/runs; FLAGS=1 tester && test ! -e bad.txt"], reruns=0, **values)


def program(tmp_path: Path, version: str, runs: str = "exit 0") -> Path:
    """Put a program of a version first on the PATH."""
    file = tmp_path / "bin" / "tester"
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    executable(file, f'#!/bin/sh\n[ "$1" = --version ] && echo tester {version} && exit 0\n{runs}\n')
    return file


def blamed(world: World, tmp_path: Path) -> tuple[MergeRow, int]:
    """The bad request once it was judged, and how often something ran for it."""
    merge = world.land("bad")
    return merge, len((tmp_path / "runs").read_text().splitlines())


def control(world: World, merge_id: str) -> ReceiptRow | None:
    rows = world.db.read(lambda conn: receipts.of_merge(conn, merge_id))
    return next((row for row in rows if row["role"] == "control"), None)


def test_a_green_run_of_the_tip_under_the_same_conditions_is_a_control(world: World, tmp_path: Path) -> None:
    world.skip(3000)
    merge, ran = blamed(world, tmp_path)
    assert (merge["state"], ran) == ("failed", 1)
    by = world.db.read(lambda conn: receipts.latest(conn, git(world.root, "rev-parse", "main^{tree}"), *green(world)))
    assert by is not None and by["log"] is not None
    cause = (
        f"main at {world.tip()[:12]} without it passed, 50 min before the failure: control run of {by['created_at']}"
    )
    assert cause in why(merge)
    assert f"receipt {by['receipt_id'][:8]}, log: {by['log']}" in why(merge)
    assert (world.root / by["log"]).is_file()


def green(world: World) -> tuple[str, ReceiptStatus]:
    return world.receipt(next(row["merge_id"] for row in world.db.read(merges.listing)))[
        "fingerprint"
    ], ReceiptStatus.PASSED


def inputs(world: World, merge: MergeRow) -> dict[str, Any]:
    stored = world.receipt(merge["merge_id"])["inputs"]
    assert stored is not None
    return stored


def the_clock(world: World, _tmp_path: Path) -> None:
    world.skip(3700)


def a_shorter_age(world: World, tmp_path: Path) -> None:
    world.landing = verified(tmp_path, control_max_age_s=60)
    world.skip(100)


def the_version(_world: World, tmp_path: Path) -> None:
    program(tmp_path, "1.1")


def the_place(world: World, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    program(tmp_path, "1.0").rename(tmp_path / "other" / "tester")
    world.environ["PATH"] = f"{tmp_path / 'other'}:{world.environ['PATH']}"


def the_path(world: World, _tmp_path: Path) -> None:
    world.environ["PATH"] += ":/opt/further/bin"


def the_language(world: World, _tmp_path: Path) -> None:
    world.environ["LC_ALL"] = "tr_TR.UTF-8"


def a_recipe(world: World, _tmp_path: Path) -> None:
    world.recipes = lambda _commit: [{"name": "python", "setup": None, "env": {"PIP_NO_INDEX": "1"}}]


def a_program_of_a_recipe(world: World, tmp_path: Path) -> None:
    program(tmp_path, "1.0").rename(tmp_path / "bin" / "installer")
    program(tmp_path, "1.0")
    world.recipes = lambda _commit: [{"name": "x", "setup": "[ -e x ] || installer --all"}]


@pytest.mark.req("I5")
@pytest.mark.parametrize(
    "change",
    [the_clock, a_shorter_age, the_version, the_place, the_path, the_language, a_recipe, a_program_of_a_recipe],
    ids=lambda change: change.__name__,
)
def test_the_tip_is_verified_again_before_anybody_is_blamed(
    world: World, tmp_path: Path, change: Callable[[World, Path], None]
) -> None:
    change(world, tmp_path)
    merge, ran = blamed(world, tmp_path)
    assert (merge["state"], ran) == ("failed", 2)
    run = control(world, merge["merge_id"])
    assert run is not None and (run["status"], run["commit_sha"]) == ("passed", world.tip())
    assert f"control run of {run['created_at']}, receipt {run['receipt_id'][:8]}, log: {run['log']}" in why(merge)


def test_another_version_of_what_runs_a_recipes_commands_is_another_fingerprint(world: World, tmp_path: Path) -> None:
    recipes = [{"name": "node", "setup": None, "programs": ["interpreter"]}]
    context = VerificationContext(
        world.db, world.project, "world", world.places, lambda *_: Prepared(), world.environ, recipes=lambda _: recipes
    )

    def fingerprint(version: str) -> str:
        program(tmp_path, version).rename(tmp_path / "bin" / "interpreter")
        return basis(context, ["test-runner"], Worktrees(), world.tip(), world.now()).fingerprint

    first = fingerprint("1.0")
    assert fingerprint("1.0") == first != fingerprint("1.1")


def test_another_terminal_makes_no_receipt_worthless(world: World, tmp_path: Path) -> None:
    for name in (
        "TERM",
        "SHELL",
        "TMPDIR",
        "XDG_RUNTIME_DIR",
        "SSH_TTY",
        "WINDOWID",
        "SHLVL",
        "DBUS_SESSION_BUS_ADDRESS",
    ):
        world.environ[name] = "/tmp"
    world.environ["PATH"] += f":{world.environ['PATH'].partition(':')[0]}"
    assert blamed(world, tmp_path)[1] == 1


@pytest.mark.req("I1")
@pytest.mark.req("I5")
@pytest.mark.parametrize("change", [the_clock, the_version], ids=lambda change: change.__name__)
def test_what_broke_since_the_tip_was_verified_blames_nobody(
    world: World, tmp_path: Path, change: Callable[[World, Path], None]
) -> None:
    change(world, tmp_path)
    program(tmp_path, "1.1" if change is the_version else "1.0", "echo the tester is broken; exit 1")
    world.branch("innocent", {"innocent.txt": "x\n"})
    merge = world.land("innocent")
    run = control(world, merge["merge_id"])
    assert run is not None and run["log"] is not None and run["status"] == "failed"
    assert merge["state"] == "held"
    assert why(merge).startswith(f"The target itself is red: main at {world.tip()[:12]}, without this change. ")
    assert f"control run of {run['created_at']}, receipt {run['receipt_id'][:8]}, log: {run['log']}" in why(merge)
    assert "the tester is broken" in (world.root / run["log"]).read_text()
    assert [name for name in world.settled if name[1] == "failed"] == []


def test_a_program_that_only_chooses_another_one_is_asked_again(world: World, tmp_path: Path) -> None:
    (tmp_path / "version").write_text("1.0\n")
    program(tmp_path, f"$(cat {tmp_path}/version)")
    world.branch("more", {"more.txt": "x\n"})
    assert world.land("more")["state"] == "landed"
    (tmp_path / "runs").unlink()
    (tmp_path / "version").write_text("2.0\n")
    world.skip(programs.AGAIN.total_seconds() + 1)
    assert blamed(world, tmp_path)[1] == 2


def test_a_program_that_never_says_the_same_does_not_keep_what_it_verifies_from_landing(
    world: World, tmp_path: Path
) -> None:
    program(tmp_path, "$(date +%s%N)")
    world.branch("slow", {"slow.txt": "x\n"})
    merge_id, deadline = world.submit("slow"), time.monotonic() + 30
    while world.merge(merge_id)["state"] != "landed":
        assert time.monotonic() < deadline
        world.queue.step(world.now())
        world.skip(programs.AGAIN.total_seconds() + 1)  # a verification takes longer than until it is asked again
        time.sleep(0.01)


def test_a_program_that_hangs_is_ended_with_what_it_started_and_lands_what_it_verifies(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "LIMIT_S", 1.0)
    file = tmp_path / "bin" / "tester"
    file.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] || exit 0\nsleep 300 & echo $! > {tmp_path}/child; while :; do echo y; done\n'
    )
    world.branch("more", {"more.txt": "x\n"})
    merge = world.land("more")
    assert merge["state"] == "landed"
    child = (tmp_path / "child").read_text().strip()
    stat = Path(f"/proc/{child}/stat")
    assert not stat.exists() or ") Z " in stat.read_text()
    named = inputs(world, merge)["programs"]
    assert {"name": "tester", "path": str(file), "version": None} in named


def test_a_receipt_says_what_it_is_of_and_which_programs_ran(world: World, tmp_path: Path) -> None:
    own = tmp_path / "bin" / "tester"
    world.prepare = lambda worktree: {"PATH": str(worktree / "tools")}
    world.branch("own-tester", {"tools/tester": "#!/bin/sh\nexit 0\n"})
    git(world.root, "switch", "-q", "own-tester")
    git(world.root, "update-index", "--chmod=+x", "tools/tester")
    git(world.root, "commit", "-q", "--amend", "--no-edit")
    git(world.root, "switch", "-q", "-f", "main")
    merge = world.land("own-tester")
    receipt = world.receipt(merge["merge_id"])
    assert (receipt["merge_id"], receipt["commit_sha"]) == (merge["merge_id"], merge["landed_sha"])
    assert receipt["role"] == "candidate"
    brought = [program for program in inputs(world, merge)["programs"] if program["name"] == "tester"]
    assert brought[0]["path"].endswith("/tools/tester") and brought[0]["version"] is None, (
        "it is the candidate's own code"
    )
    earlier = next(iter(world.db.read(merges.listing)))
    assert inputs(world, earlier)["programs"] == [{"name": "tester", "path": str(own), "version": "tester 1.0"}]


def test_a_green_run_that_was_stamped_before_the_clock_was_set_back_is_too_old_to_tell(
    world: World, tmp_path: Path
) -> None:
    world.skipped -= timedelta(days=1)
    merge, ran = blamed(world, tmp_path)
    assert (merge["state"], ran) == ("failed", 2)


def test_the_run_that_decided_is_shown_and_others_by_name(world: World, tmp_path: Path) -> None:
    world.skip(3700)
    merge, _ = blamed(world, tmp_path)
    decided = runs.find(world.db, world.project, merge["merge_id"])
    assert decided is not None
    assert (decided.number, decided.role, decided.status, decided.exit_code) == (1, "candidate", "failed", 1)
    assert decided.commit_sha == merge["candidate_sha"] and decided.decided and decided.is_own
    other = runs.find(world.db, world.project, merge["merge_id"], "control")
    assert other is not None and (other.number, other.commit_sha, other.status) == (2, world.tip(), "passed")


def test_one_that_landed_by_the_run_of_another_request_shows_that_run(world: World) -> None:
    first = world.db.read(merges.listing)[0]
    assert first["tip_sha"] is not None
    git(world.root, "revert", "--no-edit", "HEAD", "-m", "1", check=False)
    git(world.root, "switch", "-q", "-c", "good-again", "good")
    git(world.root, "commit", "-q", "--allow-empty", "-m", "again")
    git(world.root, "switch", "-q", "main")
    git(world.root, "reset", "-q", "--hard", first["tip_sha"])
    for ref in git(world.root, "for-each-ref", "--format=%(refname)", "refs/corral/landed").split():
        git(world.root, "update-ref", "-d", ref)  # nobody is to be asked about what was lost
    merge = world.land("good-again")
    assert merge["state"] == "landed" and merge["receipt_id"] == first["receipt_id"]
    run = runs.find(world.db, world.project, merge["merge_id"])
    assert run is not None and (run.number, run.is_own, run.merge_id) == (None, False, first["merge_id"])
    assert run_heading(run.model_dump()).startswith(f"# A run for request {first['merge_id'][:8]}, of the candidate")
    assert "$ echo x" in world.log(merge["merge_id"])


def test_a_receipt_of_an_earlier_version_says_only_what_is_known(world: World, tmp_path: Path) -> None:
    merge, _ = blamed(world, tmp_path)
    unknown = {"merge_id": None, "commit_sha": None, "role": None, "inputs": None}
    world.db.write(lambda conn: conn.execute(update(receipt_table).values(unknown)))
    log = world.receipt_log(merge["merge_id"])
    log.write_text(log.read_text().partition("\n")[2])
    run = runs.find(world.db, world.project, merge["merge_id"])
    assert run is not None and (run.number, run.role, run.commit_sha, run.decided) == (1, "unknown", None, True)
    assert "# Run 1, of a commit whose role was not recorded: failed, exit code 1, ended" in run_heading(
        run.model_dump()
    )


def test_of_a_red_run_that_was_repeated_the_log_says_what_it_is_of(world: World, tmp_path: Path) -> None:
    world.landing = world.landing.model_copy(update={"reruns": 1})
    merge, ran = blamed(world, tmp_path)
    assert ran == 2
    repeated, last = world.db.read(lambda conn: runs.listing(conn, world.project, world.merge(merge["merge_id"])))
    assert (repeated.number, repeated.role, repeated.status) == (1, "candidate", "repeated")
    assert repeated.commit_sha == last.commit_sha == merge["candidate_sha"]
    assert repeated.started_at is not None and parse(repeated.started_at) <= world.now()
    assert last.decided and iso(world.now()) >= (last.ended_at or "")
