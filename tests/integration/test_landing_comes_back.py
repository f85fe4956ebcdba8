"""What does not land: sent back with evidence, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.core.errors import CorralError
from corral.core.redaction import remember_secrets
from corral.landing import requests
from corral.observe.retention.log_sealing import AGAIN, LogSealer
from tests.conftest import commit, git
from tests.integration.landing_world import World, why
from tests.integration.running import ON_LINUX
from tests.support.files import put


@pytest.mark.req("I5")
def test_a_conflict_with_what_has_landed_goes_back_typed(world: World) -> None:
    world.branch("one", {"src/a.py": "a = 2\n", "both.py": "1\n"})
    world.branch("two", {"src/a.py": "a = 3\n", "both.py": "2\n"})
    first, second = world.submit("one"), world.submit("two")
    assert world.finish(first)["state"] == "landed"
    merge = world.merge(second)
    assert merge["state"] == "conflict"
    assert merge["conflicts"] == [{"path": "both.py", "kind": "add/add"}, {"path": "src/a.py", "kind": "content"}]
    assert "src/a.py (content)" in why(merge)
    assert "two conflicts with main" in why(merge)
    assert git(world.root, "rev-parse", "two") == merge["head_sha"]
    assert world.held_refs() == []
    assert world.settled[-1] == (second, "conflict")


@ON_LINUX
def test_a_file_whose_name_is_no_utf_8_is_told_with_an_escape_and_stops_nobody(world: World) -> None:
    named = "caf\udce9.txt"
    commit(world.root, {named: "0\n"})
    clashing, hindered = world.offer("clashing", {named: "1\n"}), world.offer("hindered", {named: "2\n"})
    commit(world.root, {named: "3\n"})
    merge = world.finish(clashing)
    assert (merge["state"], merge["conflicts"]) == ("conflict", [{"path": r"caf\udce9.txt", "kind": "content"}])
    assert r"caf\udce9.txt (content)" in why(merge)
    git(world.root, "reset", "-q", "--hard", "HEAD^")
    put(world.root / named, "4\n")
    requests.retry(world.db, world.repo(), hindered, now=world.now())
    merge = world.finish(hindered)
    assert merge["state"] == "held" and r"caf\udce9.txt" in why(merge)
    world.queue.step(world.now())
    assert world.events().count("merge.held") == 1, "told once"


def test_a_conflict_that_was_resolved_on_the_branch_lands_as_a_new_request(world: World) -> None:
    world.branch("two", {"src/a.py": "a = 3\n"})
    commit(world.root, {"src/a.py": "a = 2\n"})
    merge_id = world.land("two")["merge_id"]
    assert world.merge(merge_id)["state"] == "conflict"
    side = world.root.parent / "resolve"
    git(world.root, "worktree", "add", "-q", str(side), "two")
    git(side, "merge", "-q", "main", check=False)
    commit(side, {"src/a.py": "a = 5\n"}, "resolved")
    requests.retry(world.db, world.repo(), merge_id, now=world.now())
    assert world.finish(merge_id)["state"] == "conflict", "the pinned head still conflicts"
    requests.retry(world.db, world.repo(), merge_id, follow_branch=True, now=world.now())
    assert world.finish(merge_id)["state"] == "landed"
    assert (world.root / "src/a.py").read_text() == "a = 5\n"


def test_work_whose_branch_was_deleted_stays_reachable(world: World) -> None:
    head = world.branch("two", {"src/a.py": "a = 3\n"})
    commit(world.root, {"src/a.py": "a = 2\n"})
    merge_id = world.submit("two")
    git(world.root, "update-ref", "-d", "refs/heads/two")
    assert world.finish(merge_id)["state"] == "conflict"
    assert git(world.root, "rev-parse", f"refs/corral/mq/{merge_id}") == head


@pytest.mark.req("G24")
def test_unrelated_histories_are_refused_with_a_reason(world: World) -> None:
    git(world.root, "switch", "-q", "--orphan", "alien")
    commit(world.root, {"z.txt": "z\n"})
    git(world.root, "switch", "-q", "main")
    merge = world.land("alien")
    assert merge["state"] == "failed"
    assert "no history in common" in why(merge)


@pytest.mark.req("G26")
@pytest.mark.req("I5")
def test_a_pair_that_only_breaks_together_is_caught_on_the_merged_tree(world: World) -> None:
    commit(world.root, {"lib.py": "def old():\n    return 1\n", "use.py": "import lib\n\n\nassert lib.old() == 1\n"})
    world.landing = Landing(verify=["for f in use*.py; do python3 -B $f || exit 1; done"])
    world.branch(
        "rename", {"lib.py": "def new():\n    return 1\n", "use.py": "import lib\n\n\nassert lib.new() == 1\n"}
    )
    world.branch("caller", {"use_more.py": "import lib\n\nassert lib.old() == 1\n"})
    first, second = world.submit("rename"), world.submit("caller")
    assert world.finish(first)["state"] == "landed"
    merge = world.merge(second)
    assert merge["state"] == "failed"
    assert "exit code 1" in why(merge)
    assert "AttributeError" in why(merge)
    assert f"main at {world.tip()[:12]} without it passed, " in why(merge)
    assert world.tip() == world.merge(first)["landed_sha"]


@pytest.mark.req("G28")
def test_red_then_green_on_one_tree_is_a_flake_and_lands(world: World, tmp_path: Path) -> None:
    world.landing = Landing(verify=[f"test -e {tmp_path}/second || {{ touch {tmp_path}/second; exit 1; }}"])
    world.branch("feature", {"new.txt": "x\n"})
    merge = world.land("feature")
    assert merge["state"] == "landed"
    assert why(world.receipt(merge["merge_id"])).startswith("Flaky: red 1 times, then green")
    assert "merge.flaky" in world.events()


@pytest.mark.req("I5")
@pytest.mark.req("I6")
def test_a_red_target_sends_nobody_back_and_goes_on_when_it_is_mended(world: World, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    world.landing = Landing(verify=[f"echo x >> {runs}; test ! -e broken.txt"], reruns=1)
    commit(world.root, {"broken.txt": "x\n"})
    world.branch("feature", {"new.txt": "x\n"})
    world.branch("behind", {"behind.txt": "x\n"})
    merge_id, behind = world.submit("feature"), world.submit("behind")
    assert world.finish(merge_id)["state"] == "held"
    assert "The target itself is red" in why(world.merge(merge_id))
    assert world.merge(behind)["state"] == "queued"
    spent = runs.read_text()
    assert spent == "x\n" * 4, "twice the merged tree, twice the tip"
    world.queue.step(world.now())
    assert runs.read_text() == spent, "waiting costs no run"
    git(world.root, "rm", "-q", "broken.txt")
    git(world.root, "commit", "-q", "-m", "mended")
    world.run()
    assert (world.merge(merge_id)["state"], world.merge(behind)["state"]) == ("landed", "landed")


@pytest.mark.req("X15")
@pytest.mark.req("NFR-SEC-002")
def test_what_a_verification_prints_is_shown_without_its_secrets(world: World) -> None:
    remember_secrets({"DEPLOY_PASSWORD": "quite-an-ordinary-word"})
    token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    # In the long line, a cut at 200 characters would leave a piece that nothing recognises.
    says = [f"echo GOT {token}", "echo quite-an-ordinary-word", f"printf '%0185d %s\\n' 0 {token}", "test ! -e bad.txt"]
    world.landing = Landing(verify=["; ".join(says)], reruns=0)
    world.branch("feature", {"bad.txt": "x\n"})
    merge_id = world.land("feature")["merge_id"]
    world.prepare = refuse_with(f"https://me:{token}@pypi.test was not found.")
    second = world.offer("second", {"bad.txt": "y\n"})
    world.spend(60)
    remember_secrets({})
    assert "[redacted]@pypi.test" in why(world.merge(second))
    assert "GOT [redacted]" in why(world.merge(merge_id))
    stored = b"".join(path.read_bytes() for path in world.project.home.glob("corral.db*"))
    assert b"ghp_" not in stored
    assert b"ordinary" not in stored
    sealer, now = LogSealer(world.project.logs_dir, {}), world.now()
    while (again := sealer.step(now)) is not None and again - now < AGAIN:
        now = again
    assert token not in world.log(merge_id), "it was noted when the commands had ended, and overwritten by the job"


def refuse_with(cause: str) -> Callable[[Path], dict[str, str]]:
    def refuse(_path: Path) -> dict[str, str]:
        raise CorralError("The packages could not be fetched.", cause=cause)

    return refuse


def test_a_red_target_is_looked_at_again_when_a_person_asks(world: World, tmp_path: Path) -> None:
    world.landing = Landing(verify=[f"test -e {tmp_path}/service"], reruns=0)
    merge_id = world.offer("feature", {"new.txt": "x\n"})
    assert world.finish(merge_id)["state"] == "held"
    (tmp_path / "service").touch()
    requests.retry(world.db, world.repo(), merge_id, now=world.now())
    assert world.finish(merge_id)["state"] == "landed"


def test_the_repair_of_a_red_target_lands_past_those_who_wait(world: World) -> None:
    world.landing = Landing(verify=["test ! -e broken.txt"], reruns=0)
    commit(world.root, {"broken.txt": "x\n"})
    world.branch("feature", {"new.txt": "x\n"})
    world.branch("behind", {"behind.txt": "x\n"})
    held, behind = world.submit("feature"), world.submit("behind")
    world.run()
    git(world.root, "switch", "-q", "-c", "repair")
    git(world.root, "rm", "-q", "broken.txt")
    git(world.root, "commit", "-q", "-m", "mended")
    git(world.root, "switch", "-q", "main")
    world.skip(1)
    repair = world.submit("repair")
    world.until(behind, "landed")
    assert [world.merge(merge_id)["state"] for merge_id in (held, behind, repair)] == ["landed"] * 3
    assert world.settled[0] == (repair, "landed")


@pytest.mark.req("X10")
def test_a_branch_cannot_choose_what_verifies_it(world: World) -> None:
    """The commands are asked for by the target, and the branch's own are not looked at."""
    asked: list[str] = []

    def of_target(target: str) -> Landing:
        asked.append(target)
        return Landing(verify=["test ! -e bad.txt"], reruns=0)

    world.settings_of = of_target
    world.branch("feature", {"bad.txt": "x\n", ".corral/config.yaml": "landing: {verify: ['true']}\n"})
    assert world.land("feature")["state"] == "failed"
    assert set(asked) == {"refs/heads/main"}
