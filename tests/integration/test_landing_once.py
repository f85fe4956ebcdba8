"""Nothing is paid for twice: verdicts that count, checks that come first, affected tests, and flakes that are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.config.sections.sharing import Landing
from corral.core.states import ReceiptRole
from corral.landing import requests
from corral.landing.verify.flaky_tests import by_test
from corral.work.merges.store import flakes, runs
from corral.work.merges.wire import detail
from tests.conftest import git
from tests.integration.landing_world import World, why

DAY_S = 86_400


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def _grown(world: World, batch: int) -> None:
    world.db.write(lambda conn: runs.set_batch(conn, "main", batch))


def _told(world: World) -> list[Any]:
    return by_test(world.db.read(flakes.newest))


@pytest.mark.req("I1")
def test_a_reverted_request_runs_nothing_within_a_day_and_red_always_runs(world: World, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    world.landing = Landing(verify=[f"echo x >> {ran}; test ! -e bad.txt"])
    for name in ("a", "b"):
        world.branch(name, {f"{name}.txt": "x\n"})
        assert world.land(name)["state"] == "landed"
    for age_s, number in ((0.0, 2), (DAY_S, 3)):
        git(world.root, "switch", "-q", "-c", f"back-{number}", "main")
        git(world.root, "revert", "--no-edit", "-m", "1", "HEAD")
        git(world.root, "switch", "-q", "main")
        world.skip(age_s)
        assert world.land(f"back-{number}")["state"] == "landed"
        assert len(_lines(ran)) == number, "b is out again: its tree is that of a; a day later it is verified anew"
    merge_id = world.offer("bad", {"bad.txt": "x\n"})
    world.run()
    first = len(_lines(ran))
    assert world.merge(merge_id)["state"] == "failed" and first >= 3 + 2
    requests.retry(world.db, world.repo(), merge_id, now=world.now())
    world.run()
    assert world.merge(merge_id)["state"] == "failed" and len(_lines(ran)) >= first + 2


@pytest.mark.req("I5")
def test_a_red_check_is_told_early_and_sends_back_with_a_control_while_others_land(
    world: World, tmp_path: Path
) -> None:
    checked, verified, gate = (tmp_path / name for name in ("checked", "verified", "gate"))
    waits = f"test -e bad.txt || test -e good.txt || while [ ! -e {gate} ]; do sleep 0.05; done"
    world.landing = Landing(
        check=[f"echo x >> {checked}; {waits}; test ! -e bad.txt"], verify=[f"echo x >> {verified}"]
    )
    _grown(world, 4)
    for name in ("bad", "good"):
        world.branch(name, {f"{name}.txt": "x\n"})
    bad, good = world.submit("bad"), world.submit("good")
    world.step_until(lambda: "Its check is red" in str(world.merge(bad)["reason"]))
    assert world.merge(bad)["state"] in ("queued", "verifying"), "main without it decides"
    gate.touch()
    world.run()
    assert (world.merge(bad)["state"], world.merge(good)["state"]) == ("failed", "landed")
    assert "Its check (landing.check) is red" in why(world.merge(bad)) and "without it passed" in why(world.merge(bad))
    assert world.receipt(bad)["role"] == ReceiptRole.CHECK and "check" in world.log(bad, "check")
    assert len(_lines(verified)) == 1, "what is red by its check costs no verification"
    assert len(_lines(checked)) == 2 + 1 + 1, "the red one twice, its control, the good one"


@pytest.mark.req("I5")
def test_a_check_that_the_target_fails_too_says_nothing(world: World, tmp_path: Path) -> None:
    checked = tmp_path / "checked"
    world.landing = Landing(check=[f"echo x >> {checked}; false"], verify=["true"], reruns=0)
    world.branch("a", {"a.txt": "x\n"})
    assert world.land("a")["state"] == "landed"
    assert len(_lines(checked)) == 2, "the candidate, and main without it"


def test_affected_tests_run_first_and_all_of_them_decide(world: World, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    suite = f'f() {{ echo "ran $CORRAL_BASE_SHA$*" >> {ran}; case "$*" in *bad*|*late*) return 1; esac; test ! -e bad.txt; }}; f'
    world.landing = Landing(verify=[suite], affected="git diff --name-only $CORRAL_BASE_SHA HEAD", reruns=0)
    world.branch("good", {"good.txt": "x\n"})
    assert world.land("good")["state"] == "landed"
    assert _lines(ran) == ["ran good.txt", "ran "], "and no command knows its base: its verdict counts upon any"
    world.branch("bad", {"bad.txt": "x\n", "$(touch $HOME).txt": "x\n"})
    ran.unlink()
    assert world.land("bad")["state"] == "failed"
    assert _lines(ran) == ["ran $(touch $HOME).txt bad.txt", "ran "], "red in part, then red as a whole"
    ran.unlink()
    world.branch("late", {"late.txt": "x\n"})
    assert world.land("late")["state"] == "landed", "what only the affected tests say blames nobody"
    assert _lines(ran) == ["ran late.txt", "ran "] and not _told(world)
    for number, (verify, affected) in enumerate([(suite, "echo one; exit 1"), (f"{suite}\n", "echo one\n")]):
        world.landing = Landing(verify=[verify], affected=affected)
        ran.unlink()
        world.branch(f"other{number}", {f"other{number}.txt": "x\n"})
        assert world.land(f"other{number}")["state"] == "landed"
        assert _lines(ran) == ["ran one", "ran "][1 - number :], "YAML's block text ends with a line break"


@pytest.mark.req("G28")
def test_a_flake_is_counted_by_test_and_a_known_one_suspects_nobody(world: World, tmp_path: Path) -> None:
    passed = tmp_path / "passed"
    summary = "echo 'FAILED tests/test_x.py::test_y - boom'; echo '1 failed in 0.01s'"
    world.landing = Landing(verify=[f"test -e {passed} || {{ touch {passed}; {summary}; exit 1; }}"], reruns=0)

    def chain(*names: str) -> list[str]:
        """How each of these comes out of a chain whose first run is red by chance."""
        _grown(world, 2)
        passed.unlink(missing_ok=True)
        for name in names:
            world.branch(name, {f"{name}.txt": "x\n"})
        ids = [world.submit(name) for name in names]
        world.run()
        return [str(world.merge(merge_id)["state"]) for merge_id in ids]

    assert chain("a", "b") == ["landed", "landed"]
    (test,) = _told(world)
    (once,) = test["occurrences"]
    assert (test["target"], test["test"], test["times"]) == ("main", "tests/test_x.py::test_y", 1)
    assert "boom" in (world.root / once["red_log"]).read_text() and once["green_log"] != once["red_log"]
    assert "merge.flaky" in world.events()
    before = _runs(world)
    assert chain("c", "d") == ["landed", "landed"]
    assert _runs(world) == before + 1, "red by a known flake alone is run again at once"
    assert [row["times"] for row in _told(world)] == [2]
    assert chain("e") == ["landed"]
    world.branch("f", {"f.txt": "x\n"})
    assert world.land("f")["state"] == "landed"
    assert world.db.read(lambda conn: flakes.shares(conn, ""))["main"] == (3, 5), "the others were green at once"


def _runs(world: World) -> int:
    def count(conn: Any) -> int:
        return int(conn.exec_driver_sql("SELECT count(*) FROM verification_runs").scalar())

    return world.db.read(count)


@pytest.mark.req("I12")
def test_where_each_is_verified_none_is_covered_by_another(world: World) -> None:
    world.landing = Landing(verify=["true"], verify_each=True)
    world.slots = 2
    _grown(world, 3)
    for name in "abc":
        world.branch(name, {f"{name}.txt": "x\n"})
    ids = [world.submit(name) for name in "abc"]
    world.run()
    for merge_id in ids:
        merge, receipt = world.merge(merge_id), world.receipt(merge_id)
        assert (merge["state"], receipt["tree"]) == ("landed", merge["candidate_tree"])
        assert detail(merge, receipt)["receipt"]["status"] == "passed"
