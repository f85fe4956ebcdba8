"""The shapes in which work lands, signatures, and receipts that every clone can check."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.git import signing
from corral.git.land import receipt_notes
from corral.landing import requests, shapes
from corral.store.rows.merges import MergeRow
from corral.work.merges.settling import enqueue
from corral.work.merges.store import runs
from corral.work.merges.wire import covered_by
from tests.conftest import commit, git, verified_in
from tests.integration.landing_world import World, in_a_process, why
from tests.support.files import executable
from tests.support.programs import requires

STYLES = ["merge", "squash", "rebase", "fast-forward"]


SIGNS = "cat > /dev/null; echo '[GNUPG:] SIG_CREATED ' >&2; echo signature"


def signs_with(program: Path, script: str) -> None:
    """The user's own configuration has commits signed by a program that stands for gpg."""
    executable(program, f"#!/bin/sh\n{script}\n")
    (Path.home() / ".gitconfig").write_text(f"[commit]\ngpgSign = true\n[gpg]\nprogram = {program}\n")


def landed(world: World, merge_id: str) -> MergeRow:
    row = world.merge(merge_id)
    assert row["state"] == "landed", row["reason"]
    assert row["landed_sha"] is not None
    git(world.root, "merge-base", "--is-ancestor", row["landed_sha"], row["target"])
    return row


@pytest.mark.req("G7")
@pytest.mark.req("I4")
@pytest.mark.parametrize("layout", ["main", "linked", "nowhere", "bare"])
@pytest.mark.parametrize("style", STYLES)
def test_each_shape_lands_once_wherever_its_target_is_checked_out(
    make_repo: Callable[..., Path], tmp_path: Path, style: str, layout: str
) -> None:
    root = make_repo()
    base = git(root, "rev-parse", "main")
    tip = base if style == "fast-forward" else commit(root, {"other.txt": "x\n"})
    if layout == "bare":
        git(tmp_path, "clone", "-q", "--bare", str(root), str(tmp_path / "bare.git"))
        world = World(tmp_path / "bare.git", common_dir=tmp_path / "bare.git")
    else:
        world = World(root)
        if layout != "main":
            git(root, "switch", "-q", "-c", "elsewhere")
        if layout == "linked":
            git(root, "worktree", "add", "-q", str(tmp_path / "linked"), "main")
    world.landing = Landing.model_validate({"style": style})
    world.own_branch("corral/task", {"new.txt": "x\n"}, base)
    merge_id = world.submit("corral/task")
    world.run()
    row = landed(world, merge_id)
    parents = git(world.root, "log", "-1", "--format=%P", row["landed_sha"] or "").split()
    assert parents == {"merge": [tip, row["head_sha"]]}.get(style, [tip])
    assert (row["landed_sha"] == row["head_sha"]) == (style == "fast-forward")
    assert git(world.root, "branch", "--list", "corral/*") == "" and world.held_refs() == [], "its branch has retired"
    git(world.root, "branch", "again", row["head_sha"])
    assert enqueue(world.db, world.repo(), branch="again", target="main", now=world.now()) is None, (
        "there is nothing left"
    )
    if layout in ("main", "linked"):
        checkout = root if layout == "main" else tmp_path / "linked"
        assert (checkout / "new.txt").read_text() == "x\n"
        assert git(checkout, "status", "--porcelain") == ""
    world.close()


def test_a_target_that_takes_fast_forwards_alone_sends_back_what_is_behind_with_what_to_type(world: World) -> None:
    world.landing = Landing(style="fast-forward")
    world.branch("first", {"a.txt": "1\n"})
    world.branch("second", {"b.txt": "1\n"})
    ids = [world.submit(name) for name in ("first", "second")]
    world.run()
    first, second = map(world.merge, ids)
    assert (first["state"], first["landed_sha"]) == ("landed", first["head_sha"])
    assert (second["state"], second["conflicts"]) == ("conflict", []), "it is to be merged, and nothing was red"
    assert "git merge main" in why(second)


def test_a_message_is_the_templates_with_trailers_that_nobody_forges(world: World) -> None:
    world.landing = Landing(style="squash", message="{title} ({branch})\n\n{commits}\n\nReviewed-by: nobody")
    world.branch("feature", {"a.txt": "1\n"})
    commit(world.root, {"b.txt": "1\n"})
    row = world.land("feature", title="x\n\nCorral-Task: forged {merge}")
    assert git(world.root, "log", "-1", "--format=%B") == (
        "x Corral-Task: forged {merge} (feature)\n\n* work on feature\n\n"
        f"Reviewed-by: nobody\nCorral-Merge: {row['merge_id']}"
    )
    forged = shapes.message(Landing(message="x\n\n{title}"), {**row, "title": "Corral-Task: forged"})
    trailers = subprocess.run(["git", "interpret-trailers", "--parse"], input=forged, capture_output=True, text=True)
    assert trailers.stdout == f"Corral-Merge: {row['merge_id']}\n"


def test_a_squashed_branch_that_goes_on_lands_only_what_is_new(world: World) -> None:
    world.landing = Landing(style="squash")
    world.branch("feature", {"f.txt": "one\n"})
    commit(world.root, {"b.txt": "1\n"})
    world.land("feature")
    commit(world.root, {"f.txt": "another\n"}, "main goes on from what it brought")
    git(world.root, "worktree", "add", "-q", str(world.root.parent / "on"), "feature")
    commit(world.root.parent / "on", {"g.txt": "1\n"}, "more")
    row = world.land("feature")
    assert row["state"] == "landed", row["reason"]
    assert (world.root / "f.txt").read_text() == "another\n" and (world.root / "g.txt").exists()
    assert git(world.root, "log", "-1", "--format=%b").startswith("* more\n\n")


def test_a_squashed_request_that_a_target_lost_is_missed_and_comes_back_as_it_was(world: World) -> None:
    world.landing = Landing(style="squash")
    world.queue.recover(world.now())
    for name in ("one", "two"):
        world.branch(name, {f"{name}.txt": "1\n"})
    commit(world.root, {"b.txt": "1\n"})
    world.land("one")
    between = world.tip()
    world.land("two")
    lost = world.tip()
    git(world.root, "reset", "-q", "--hard", between)
    world.queue.step(world.now())
    (rewind,) = world.queue.rewinds.open["main"]
    assert [row["title"] for row in rewind.requests] == ["two"]
    commit(world.root, {"c.txt": "1\n"}, "main goes on without it")
    world.land(lost)
    world.queue.step(world.now())
    assert world.queue.rewinds.open == {} and "target.restored" in world.events()
    git(world.root, "merge-base", "--is-ancestor", lost, "main")


@pytest.mark.faults
@pytest.mark.req("I4")
@pytest.mark.req("I7")
@pytest.mark.req("I8")
@pytest.mark.parametrize("point", ["landing.signed", "landing.target_moved", "landing.receipt_noted"])
def test_a_signed_squash_that_was_killed_lands_once_and_its_receipt_is_made_again(
    repo: Path, tmp_path: Path, point: str
) -> None:
    verify, world = "test -f new.txt", World(repo)
    world.own_branch("corral/task", {"new.txt": "x\n"})
    before = commit(repo, {"b.txt": "1\n"})
    merge_id = world.submit("corral/task")
    world.close()
    signs_with(tmp_path / "gpg", SIGNS)
    assert in_a_process(repo, verify, LANDING_STYLE="squash", CORRAL_CRASH_AT=point).wait(60) == -9
    noted = git(repo, "for-each-ref", receipt_notes.REF) != ""
    assert noted == (point == "landing.receipt_noted"), "it is written between the move and the outcome"
    shutil.rmtree(verified_in(repo))
    git(repo, "worktree", "prune")  # its HEAD would keep what was verified
    git(repo, "gc", "--prune=now", "-q")
    again = World(repo, landing=Landing(verify=[verify], style="squash"))
    again.queue.recover(again.now())
    again.run()
    row = landed(again, merge_id)
    assert git(repo, "rev-list", f"{before}..main").split() == [row["landed_sha"]]
    assert "\ngpgsig " in git(repo, "cat-file", "commit", "main")
    assert receipt_notes.check(again.repo(), "main").is_proven
    git(repo, "update-ref", "-d", receipt_notes.REF)
    again.new_queue().recover(again.now())
    assert receipt_notes.check(again.repo(), "main").is_proven, "every start writes what is missing"
    again.close()


# -- receipts ---------------------------------------------------------------------------------------------------------


def corral(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "corral", *args], cwd=folder, capture_output=True, text=True)


@pytest.mark.req("I12")
def test_a_clone_checks_receipts_without_corral_and_nothing_passes_that_does_not_fit(
    world: World, tmp_path: Path
) -> None:
    world.landing = Landing(verify=["test -d ."])
    world.db.write(lambda conn: runs.set_batch(conn, "main", 2))
    for name in ("one", "two"):
        world.branch(name, {f"{name}.txt": "1\n"})
    ids = [world.submit(name) for name in ("one", "two")]
    world.run()
    below, tip = (landed(world, merge_id)["landed_sha"] for merge_id in ids)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(world.root), str(clone))
    missing = corral(clone, "merge", "verify-receipt", "HEAD")
    assert missing.returncode == 3 and "refs/notes/corral" in missing.stderr
    git(clone, "fetch", "-q", "origin", "refs/notes/corral/*:refs/notes/corral/*")
    answers = {sha: corral(clone, "merge", "verify-receipt", str(sha), "--json") for sha in (below, tip)}
    assert [answer.returncode for answer in answers.values()] == [0, 0], answers
    covered, passed = (json.loads(answer.stdout) for answer in answers.values())
    assert (covered["status"], passed["status"]) == ("covered", "passed")
    assert covered["receipt"]["verified"]["commit"] == tip == world.tip()
    assert corral(clone, "merge", "verify-receipt", "HEAD").stdout.startswith(f"{str(tip)[:12]}  passed")
    assert not (clone / ".corral").exists()

    bad = {
        "a receipt of another commit": (str(tip), {**passed["receipt"], "commit": below}),
        "a tree that was not verified": (str(tip), {**passed["receipt"], "verified": {"commit": tip, "tree": below}}),
        "a cover that does not contain it": (str(tip), {**covered["receipt"], "commit": tip, "tree": passed["tree"],
                                                        "verified": {"commit": below, "tree": covered["tree"]}}),
        "a run that failed": (str(tip), {**passed["receipt"], "exit_code": 1}),
        "nothing that ran": (str(tip), {**passed["receipt"], "commands": []}),
        "unverified": (str(tip), {**passed["receipt"], "status": "unverified"}),
    }  # fmt: skip
    for what, (sha, receipt) in bad.items():
        git(clone, "notes", f"--ref={receipt_notes.REF}", "add", "-f", "-m", json.dumps(receipt), sha)
        answer = corral(clone, "merge", "verify-receipt", sha, "--json")
        assert answer.returncode == 1, what
        assert bool(json.loads(answer.stdout)["problems"]) == (what != "unverified"), what
    below_now = corral(clone, "merge", "verify-receipt", str(below))
    assert below_now.returncode == 1 and "has no receipt here that says that it passed" in below_now.stdout


# -- signatures -------------------------------------------------------------------------------------------------------


@requires("ssh-keygen")
def test_what_lands_is_signed_with_the_trees_that_were_verified(world: World, tmp_path: Path) -> None:
    key, counter = tmp_path / "key", tmp_path / "runs"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    world.landing = Landing(verify=[f"echo run >> {counter}"], style="rebase")
    world.db.write(lambda conn: runs.set_batch(conn, "main", 3))
    for name in ("one", "two", "three"):
        world.branch(name, {f"{name}.txt": "1\n"})
    before = commit(world.root, {"b.txt": "1\n"})
    own = f"[commit]\ngpgSign = true\n[gpg]\nformat = ssh\n[user]\nsigningKey = {key}\n"
    (Path.home() / ".gitconfig").write_text(own)
    ids = [world.submit(name) for name in ("one", "two", "three")]
    world.run()
    shas = git(world.root, "rev-list", "--reverse", f"{before}..main").split()
    assert [landed(world, merge_id)["landed_sha"] for merge_id in ids] == shas
    for sha in shas:
        assert "\ngpgsig " in git(world.root, "cat-file", "commit", sha)
        assert receipt_notes.check(world.repo(), sha).is_proven
    assert counter.read_text() == "run\n", "what was verified has landed: signing changes no tree"
    assert world.receipt(ids[-1])["tree"] == git(world.root, "rev-parse", "main^{tree}")
    by = {covered_by(world.merge(merge_id), world.receipt(merge_id)) for merge_id in ids[:-1]}
    assert by == {world.tip()}, "and what covers the others is on the target"


def test_runs_go_on_while_what_they_are_built_upon_is_signed(world: World, tmp_path: Path) -> None:
    """The longer prefix is verified while the shorter one lands: its commits get new names, its run goes on."""
    gate, counter = tmp_path / "go", tmp_path / "runs"
    wait = f"if [ -e second.txt ]; then while [ ! -e {gate} ]; do sleep 0.05; done; fi"
    world.landing = Landing(verify=[f"echo run >> {counter}; {wait}"])
    world.slots = 2
    world.db.write(lambda conn: runs.set_batch(conn, "main", 2))
    for name in ("first", "second"):
        world.branch(name, {f"{name}.txt": "1\n"})
    commit(world.root, {"b.txt": "1\n"})
    signs_with(tmp_path / "gpg", SIGNS)
    first, second = (world.submit(name) for name in ("first", "second"))
    world.until(first, "landed")
    world.queue.step(world.now())
    gate.touch()
    world.run()
    landed(world, second)
    assert counter.read_text() == "run\nrun\n", "no run was begun anew"
    assert "\ngpgsig " in git(world.root, "cat-file", "commit", "main")


@pytest.mark.parametrize("script", ["echo 'no secret key' >&2; exit 2", "sleep 300"], ids=["fails", "hangs"])
def test_a_signature_that_fails_holds_with_gits_words_and_lands_later_without_another_run(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    counter = tmp_path / "runs"
    world.landing = Landing(verify=[f"echo run >> {counter}"])
    monkeypatch.setattr(signing, "LIMIT_S", 0.5)
    world.branch("feature", {"a.txt": "1\n"})
    tip = commit(world.root, {"b.txt": "1\n"})
    signs_with(tmp_path / "gpg", script)
    merge_id = world.submit("feature")
    row = world.until(merge_id, "held")
    assert world.tip() == tip
    assert ("was killed" if script.startswith("sleep") else "gpg failed to sign the data") in why(row)
    due = world.queue.step(world.now())
    assert due is not None and due > world.now(), "it is not asked again and again"
    signs_with(tmp_path / "gpg", SIGNS)
    requests.retry(world.db, world.repo(), merge_id, now=world.now())
    world.run()
    landed(world, merge_id)
    assert counter.read_text() == "run\n"
