"""What a rewound target lost is held by refs and told, whoever rewound it and however; what only looks like it is not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.core.errors import Conflict, NotFound
from corral.landing.rewinds import Rewind
from corral.work.merges.store import landed
from tests.conftest import commit, git
from tests.integration.landing_world import World, why


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    made = World(repo)
    made.queue.recover(made.now())
    yield made
    made.close()


def look(world: World) -> tuple[Rewind, ...]:
    """What the queue's next step tells of main."""
    world.queue.step(world.now())
    return world.queue.rewinds.open.get("main", ())


def titles(rewinds: tuple[Rewind, ...]) -> list[list[str]]:
    return [[row["title"] for row in rewind.requests] for rewind in rewinds]


def refs_below(world: World, state: str) -> list[str]:
    return git(world.root, "for-each-ref", "--format=%(objectname)", f"refs/corral/landed/{state}/").split()


def two_landed(world: World) -> tuple[str, str, str]:
    """Main before both landings, between them, and after."""
    before = world.tip()
    world.branch("one", {"one.txt": "1\n"})
    world.branch("two", {"two.txt": "2\n"})
    world.land("one")
    between = world.tip()
    world.land("two")
    return before, between, world.tip()


def test_what_a_reset_took_is_told_once_and_gone_when_it_comes_back(world: World) -> None:
    before, between, tip = two_landed(world)
    git(world.root, "reset", "-q", "--hard", between)
    assert titles(look(world)) == [["two"]] and refs_below(world, "lost") == [tip]
    assert refs_below(world, "tips") == [between]
    git(world.root, "reset", "-q", "--hard", before)
    assert titles(look(world)) == [["one", "two"]] and refs_below(world, "lost") == [tip], "the one tip has both"
    assert world.events().count("target.rewound") == 2
    restarted = world.new_queue()
    restarted.recover(world.now())
    assert titles(restarted.rewinds.open["main"]) == [["one", "two"]]
    assert world.events().count("target.rewound") == 2, "it was told"
    git(world.root, "merge", "-q", "--ff-only", tip)
    assert look(world) == () and refs_below(world, "lost") == [] and refs_below(world, "tips") == [tip]
    assert "target.restored" in world.events()


def test_a_rewind_is_noticed_without_a_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before, _, _ = two_landed(world)
    look(world)
    rewinds, repo = world.queue.rewinds, world.repo()
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", lambda *_args, **_kw: pytest.fail("a process was started"))
        assert not rewinds.has_moved(repo)
    git(world.root, "pack-refs", "--all")
    look(world)
    assert not rewinds.has_moved(repo)
    git(world.root, "update-ref", "refs/heads/main", before)
    assert rewinds.has_moved(repo)


def test_a_forced_fetch_into_a_target_that_is_checked_out_nowhere(world: World, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(world.root), str(tmp_path / "upstream.git"))
    two_landed(world)
    git(world.root, "switch", "-q", "--detach")
    git(world.root, "fetch", "-q", str(tmp_path / "upstream.git"), "+main:main")
    assert titles(look(world)) == [["one", "two"]]


def test_a_bare_repository_and_a_target_with_slashes(repo: Path, tmp_path: Path) -> None:
    git(repo, "branch", "release/1.x")
    git(repo, "branch", "release%2F1.x")
    git(repo, "branch", "side", git(repo, "commit-tree", "main^{tree}", "-p", "main", "-m", "side"))
    git(tmp_path, "clone", "-q", "--mirror", str(repo), str(tmp_path / "bare.git"))
    world = World(tmp_path / "bare.git", common_dir=tmp_path / "bare.git")
    world.land("side", target="release/1.x")
    world.land("side", target="release%2F1.x")
    git(world.root, "update-ref", "refs/heads/release/1.x", "refs/heads/main")
    world.queue.step(world.now())
    assert list(world.queue.rewinds.open) == ["release/1.x"]
    world.close()


@pytest.mark.parametrize(
    "rewrite",
    [
        pytest.param(["commit", "-q", "--amend", "-m", "said better"], id="another message"),
        pytest.param(["-c", "user.email=me@x", "rebase", "-q", "--force-rebase", "HEAD~2"], id="rebased"),
        pytest.param(["cherry-pick"], id="picked again"),
        pytest.param(["revert", "--no-edit", "-m", "1", "HEAD"], id="reverted"),
        pytest.param(["squash"], id="squashed"),
        pytest.param(["amend"], id="amended"),
    ],
)
def test_a_target_that_was_rewritten_and_lacks_nothing_is_not_told(world: World, rewrite: list[str]) -> None:
    before, _, tip = two_landed(world)
    if rewrite == ["cherry-pick"]:
        git(world.root, "reset", "-q", "--hard", before)
        commit(world.root, {"other.txt": "3\n"})
        git(world.root, "cherry-pick", "one", "two")
    elif rewrite == ["squash"]:
        git(world.root, "reset", "-q", "--soft", before)
        git(world.root, "commit", "-q", "-m", "both")
    elif rewrite == ["amend"]:
        git(world.root, "reset", "-q", "--hard", "two")
        git(world.root, "rebase", "-q", "one")
        (world.root / "two.txt").write_text("2, and more\n")
        git(world.root, "commit", "-q", "-a", "--amend", "--no-edit")
    else:
        git(world.root, *rewrite)
    assert look(world) == () and "target.rewound" not in world.events()
    if rewrite[0] != "revert":
        assert refs_below(world, "kept") == [tip], "the commits that landed stay for a while all the same"
    git(world.root, "reset", "-q", "--hard", before)
    assert titles(look(world)) == [["one", "two"]], "and a rewind of the rewritten is told"


def test_a_target_that_was_renamed_is_not_lost_and_what_is_submitted_meanwhile_waits(world: World) -> None:
    two_landed(world)
    git(world.root, "branch", "-m", "main", "trunk")
    assert look(world) == ()
    world.branch("three", {"three.txt": "3\n"}, base="trunk")
    merge_id = world.submit("three")
    world.queue.step(world.now())
    assert world.merge(merge_id)["state"] == "held" and "no branch main any more" in why(world.merge(merge_id))
    assert "merge submit three --target NAME" in why(world.merge(merge_id)), "a person may mean the new name to stay"
    with pytest.raises(NotFound):
        world.submit("three", target="nobody-knew-it")
    git(world.root, "branch", "-m", "trunk", "main")
    world.skip(10)
    assert world.until(merge_id, "landed")["landed_sha"] == world.tip()
    assert look(world) == () and "target.rewound" not in world.events()


def test_a_target_that_was_deleted_with_all_it_had_is_told_until_it_is_made_again(world: World) -> None:
    world.branch("side", {"side.txt": "1\n"})
    git(world.root, "branch", "release")
    world.land("side", target="release")
    sha = world.tip("release")
    git(world.root, "branch", "-qD", "side")
    git(world.root, "branch", "-qD", "release")
    world.queue.step(world.now())
    (rewind,) = world.queue.rewinds.open["release"]
    assert "release is gone" in rewind.what and f"git branch release {sha[:12]}" in rewind.remedy
    git(world.root, "branch", "release", sha[:12])
    world.queue.step(world.now())
    assert world.queue.rewinds.open == {}


def test_what_was_made_on_lost_work_waits_until_a_person_has_decided(world: World) -> None:
    before, _, tip = two_landed(world)
    world.branch("on-it", {"three.txt": "3\n"})
    git(world.root, "branch", "beside", git(world.root, "commit-tree", f"{before}^{{tree}}", "-p", before, "-m", "b"))
    git(world.root, "reset", "-q", "--hard", before)
    look(world)
    on_it, beside = world.submit("on-it"), world.submit("beside")
    world.until(beside, "landed")
    assert world.merge(on_it)["state"] == "held" and "made on what main lost" in why(world.merge(on_it))
    back = world.submit(tip)
    world.until(back, "landed")
    world.skip(10)
    world.until(on_it, "landed")
    assert look(world) == () and (world.root / "two.txt").exists()


def test_a_person_accepts_exactly_what_they_saw_and_it_is_said_of_the_requests(world: World) -> None:
    before, between, tip = two_landed(world)
    rewinds, repo = world.queue.rewinds, world.repo()
    with pytest.raises(NotFound, match="lacks nothing") as refused:
        rewinds.accept(repo, "main", [tip], world.now())
    assert "mistyped" not in refused.value.cause
    git(world.root, "reset", "-q", "--hard", between)
    look(world)
    with pytest.raises(Conflict, match="lost something else"):
        rewinds.accept(repo, "main", [before], world.now())
    rewinds.accept(repo, "main", [tip], world.now())
    assert look(world) == () and refs_below(world, "lost") == [] and refs_below(world, "kept") == [tip]
    (two,) = [row for row in world.db.read(lambda conn: landed.on(conn, "main")) if row["title"] == "two"]
    assert two["state"] == "landed" and why(two).startswith("Taken back from main")
    assert "target.rewind_accepted" in world.events()
    again = world.new_queue()
    again.recover(world.now())
    assert again.rewinds.open == {} and world.merge(two["merge_id"])["reason"] == two["reason"]
    git(world.root, "reset", "-q", "--hard", before)
    assert titles(look(world)) == [["one"]], "what was accepted is not asked about again"
    git(world.root, "merge", "-q", tip)
    assert look(world) == () and world.merge(two["merge_id"])["reason"] is None, "it is there again after all"


@pytest.mark.parametrize("point", ["landing.target_moved", "landing.tip_kept"])
def test_a_landing_that_was_killed_is_held_after_the_next_start(
    world: World, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import corral.landing.land as landing

    def dies(at: str) -> None:
        if at == point:
            raise KeyboardInterrupt

    merge_id = world.offer("one", {"one.txt": "1\n"})
    with monkeypatch.context() as patched:
        patched.setattr(landing, "crash_point", dies)
        with pytest.raises(KeyboardInterrupt):
            world.run()
    queue = world.new_queue()
    queue.recover(world.now())
    assert world.merge(merge_id)["state"] == "landed" and refs_below(world, "tips") == [world.tip()]


def test_what_landed_before_there_were_such_refs_is_held_from_the_next_start_on(world: World) -> None:
    before, _, tip = two_landed(world)
    git(world.root, "update-ref", "-d", "refs/corral/landed/tips/main")
    git(world.root, "reset", "-q", "--hard", before)
    queue = world.new_queue()
    queue.recover(world.now() + timedelta(days=31))
    assert refs_below(world, "lost") == [], "it is too old to be kept"
    queue.recover(world.now())
    assert refs_below(world, "lost") == [tip] and titles(queue.rewinds.open["main"]) == [["one", "two"]]


def test_a_rewind_is_noticed_while_a_verification_runs(world: World) -> None:
    before, _, _ = two_landed(world)
    world.landing = Landing(verify=["sleep 60; echo '1 passed in 0.01s'"])
    merge_id = world.offer("slow", {"slow.txt": "1\n"})
    world.until(merge_id, "verifying")
    git(world.root, "reset", "-q", "--hard", before)
    assert titles(look(world)) == [["one", "two"]]
