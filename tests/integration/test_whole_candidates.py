"""A candidate is verified whole, as a fresh clone would have it: whatever the main checkout or a run before hides or converts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from tests.conftest import commit, git
from tests.integration.landing_world import World, why
from tests.support.files import executable

FILES = {f"d{n}/f": "good\n" for n in range(4)} | {"check.sh": "! grep -rq bad d?\n", "top": "good\n"}
SPARSE = {
    "cone": ("sparse-checkout", "set", "d0"),
    "patterns": ("sparse-checkout", "set", "--no-cone", "/d0/", "/check.sh"),
    "sparse index": ("sparse-checkout", "set", "--sparse-index", "d0"),
}


@pytest.fixture
def made(make_repo: Callable[..., Path]) -> Iterator[Callable[..., World]]:
    worlds = []

    def make(files: dict[str, str] | None = None, verify: str = "sh check.sh") -> World:
        worlds.append(World(make_repo("whole", files or FILES), landing=Landing(verify=[verify], reruns=0)))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def place(world: World) -> Path:
    return world.verification_worktree.path


def submit(world: World, name: str, files: dict[str, str]) -> str:
    world.branch(name, files)
    return world.submit(name)


def submit_blobs(world: World, name: str, files: dict[str, str]) -> str:
    """The same without any checkout, which filters and attributes would change."""
    repo = world.repo()
    lines = {line.partition("\t")[2]: line for line in repo.must("ls-tree", "main").splitlines()}
    for path, text in files.items():
        blob = repo.must("hash-object", "-w", "--stdin", input=text.encode())
        lines[path] = f"100644 blob {blob}\t{path}"
    tree = repo.must("mktree", input="".join(f"{line}\n" for line in lines.values()).encode())
    git(world.root, "branch", name, git(world.root, "commit-tree", "-p", "main", "-m", name, tree))
    return world.submit(name)


@pytest.mark.parametrize("layout", [*SPARSE, "shared settings"])
def test_sparse_patterns_of_the_main_checkout_hide_nothing(made: Callable[..., World], layout: str) -> None:
    world = made()
    bad = submit(world, "bad", {"d3/f": "bad\n"})
    good = submit(world, "good", {"d2/f": "good as well\n"})
    if layout in SPARSE:
        git(world.root, *SPARSE[layout])
    else:  # as git before 2.35 wrote them
        git(world.root, "config", "core.sparseCheckout", "true")
        (world.root / ".git/info/sparse-checkout").write_text("/d0/\n")
        git(world.root, "read-tree", "-mu", "HEAD")
    assert not (world.root / "d3").exists()
    world.until(good, "landed")
    assert world.until(bad, "failed", "landed")["state"] == "failed"
    assert sorted(path.name for path in place(world).glob("d*")) == ["d0", "d1", "d2", "d3"]
    assert not (world.root / "d3").exists(), "the person's own checkout stays as sparse as it was"


def test_a_worktree_that_was_made_sparse_is_whole_for_the_next_run(made: Callable[..., World]) -> None:
    world = made()
    world.until(submit(world, "one", {"one": "x\n"}), "landed")
    git(place(world), "sparse-checkout", "set", "--sparse-index", "d0")
    assert not (place(world) / "d3").exists()
    assert world.until(submit(world, "bad", {"d3/f": "bad\n"}), "failed", "landed")["state"] == "failed"
    # as an earlier version left it
    git(place(world), "sparse-checkout", "set", "d0")
    entry = Path(git(place(world), "rev-parse", "--absolute-git-dir"))
    for own in entry.glob("corral-*"):
        own.unlink()
    assert world.until(submit(world, "worse", {"d3/f": "bad\n"}), "failed", "landed")["state"] == "failed"


@pytest.mark.parametrize("mark", ["--skip-worktree", "--assume-unchanged"])
def test_marks_that_a_run_sets_hide_nothing(made: Callable[..., World], mark: str) -> None:
    world = made()
    bad = submit(world, "bad", {"check.sh": f"git update-index {mark} top && echo other > top\n"})
    merge = world.until(bad, "failed", "landed")
    assert merge["state"] == "failed" and "changed tracked files (top)" in why(merge)
    world.until(submit(world, "good", {"check.sh": "grep -q good top\n"}), "landed")
    settings = "git config core.trustctime false && git config core.checkStat minimal && touch -r top mine"
    hide = f"{settings} && echo evil > top && touch -r mine top && rm mine\n"
    merge = world.until(submit(world, "worse", {"check.sh": hide}), "failed", "landed")
    assert merge["state"] == "failed" and "changed tracked files (top)" in why(merge)


def test_what_a_run_has_begun_in_git_is_over_for_the_next(made: Callable[..., World]) -> None:
    world = made()
    begin = "git bisect start >/dev/null && git update-ref refs/worktree/own HEAD\n"
    world.until(submit(world, "one", {"check.sh": begin}), "landed")
    over = "! git bisect log && ! git rev-parse -q --verify refs/worktree/own\n"
    world.until(submit(world, "two", {"check.sh": over}), "landed")


RETURNS = {".gitattributes": "*.txt text\n", "w.txt": "a\r\nb\r\n", "check.sh": "test -f w.txt\n"}


def test_files_that_look_changed_once_they_are_checked_out_stop_nobody(make_repo: Callable[..., Path]) -> None:
    root = make_repo("returns", {"w.txt": RETURNS["w.txt"], "check.sh": RETURNS["check.sh"]})
    commit(root, {".gitattributes": RETURNS[".gitattributes"]})  # the file is stored as it is
    world = World(root, landing=Landing(verify=["sh check.sh"], reruns=0))
    try:
        merge_id = submit_blobs(world, "one", {"one": "x\n"})
        world.until(merge_id, "landed")
        assert "git calls w.txt changed as soon as it has written" in world.log(merge_id)
        touched = submit_blobs(world, "touched", {"check.sh": "cp w.txt mine && mv mine w.txt\n"})
        world.until(touched, "landed")
        changed = submit_blobs(world, "changed", {"check.sh": "echo more >> w.txt\n"})
        merge = world.until(changed, "failed", "landed")
        assert merge["state"] == "failed" and "changed tracked files (w.txt [text])" in why(merge)
    finally:
        world.close()


def test_filters_that_do_not_round_trip_stop_nobody(made: Callable[..., World], tmp_path: Path) -> None:
    world = made({".gitattributes": "*.bin filter=odd\n", "a.bin": "x\n", "check.sh": "grep -q written a.bin\n"})
    git(world.root, "config", "filter.odd.smudge", f"cat; echo written; date +%N >> {tmp_path / 'runs'}; date +%N")
    world.until(submit_blobs(world, "one", {"one": "x\n"}), "landed")
    merge = world.until(submit_blobs(world, "two", {"check.sh": "echo y > a.bin\n"}), "failed", "landed")
    assert merge["state"] == "failed" and "changed tracked files (a.bin [filter=odd])" in why(merge)


@pytest.mark.req("G18")
def test_a_filter_like_lfs_works_and_one_without_its_program_is_named(
    made: Callable[..., World], tmp_path: Path
) -> None:
    world = made({"check.sh": "grep -q large a.bin\n"})
    store, bin_ = tmp_path / "store", tmp_path / "bin"
    store.mkdir()
    bin_.mkdir()
    program = executable(
        bin_ / "large-files",
        f"#!/bin/sh\ncase $1 in clean) t=$(mktemp); cat > $t; h=$(sha1sum < $t | cut -c1-40); mv $t {store}/$h; echo $h;;\n"
        f"smudge) read h; cat {store}/$h;; esac\n",
    )
    for kind in ("clean", "smudge"):
        git(world.root, "config", f"filter.large.{kind}", f"{program} {kind}")
    git(world.root, "config", "filter.large.required", "true")
    (store / ("1" * 40)).write_text("large\n")
    lacking = submit_blobs(world, "one", {".gitattributes": "*.bin filter=large\n", "a.bin": f"{'1' * 40}\n"})
    assert world.until(lacking, "landed", "failed")["state"] == "landed"
    away = program.rename(tmp_path / "away")
    shutil.rmtree(place(world))
    merge_id = submit_blobs(world, "two", {"two": "x\n"})
    world.run(skip=False)
    merge = world.merge(merge_id)
    assert merge["state"] == "queued" and "The filter 'large' could not write the files" in why(merge)
    assert "Install the program" in why(merge)
    away.rename(program)
    assert world.finish(merge_id)["state"] == "landed"


def test_replaced_objects_and_rules_of_the_person_decide_nothing(made: Callable[..., World], tmp_path: Path) -> None:
    world = made()
    bad = submit(world, "bad", {"d3/f": "bad\n"})
    git(world.root, "replace", git(world.root, "rev-parse", "bad:d3/f"), git(world.root, "rev-parse", "main:d3/f"))
    assert "failed with exit code 1" in why(world.until(bad, "failed", "landed"))
    rules = tmp_path / "attributes"
    rules.write_text("* text eol=crlf\n")
    git(world.root, "config", "core.attributesFile", str(rules))
    git(world.root, "config", "core.autocrlf", "true")
    plain = submit(world, "plain", {"check.sh": "! grep -q \"$(printf '\\r')\" top\n"})
    assert world.until(plain, "failed", "landed")["state"] == "landed"


def test_files_follow_the_attributes_of_their_own_candidate(made: Callable[..., World]) -> None:
    world = made({"w.txt": "a\n", "check.sh": "! grep -q \"$(printf '\\r')\" w.txt\n"})
    world.until(submit(world, "one", {"one": "x\n"}), "landed")
    rules = {".gitattributes": "*.txt text eol=crlf\n"}
    assert world.until(submit(world, "bad", rules), "failed", "landed")["state"] == "failed", "as a fresh clone has it"
    world.until(submit(world, "good", {"good": "x\n"}), "landed")


def test_a_submodule_is_empty_unless_the_candidate_fills_it(
    made: Callable[..., World], make_repo: Callable[..., Path]
) -> None:
    inner = make_repo("inner", {"f": "1\n"})
    world = made(
        {
            "check.sh": 'test -z "$(ls -A sub 2>/dev/null)" && git -c protocol.file.allow=always submodule -q update --init '
            "&& touch sub/built\n"
        }
    )
    git(world.root, "-c", "protocol.file.allow=always", "submodule", "-q", "add", str(inner), "sub")
    git(world.root, "commit", "-qm", "sub")
    world.until(submit(world, "one", {"one": "x\n"}), "landed")
    assert (place(world) / "sub" / "f").exists(), "and what it builds there is no change of a tracked file"
    world.until(submit(world, "two", {"two": "x\n"}), "landed")


def test_objects_that_a_partial_clone_lacks_are_named(made: Callable[..., World], tmp_path: Path) -> None:
    source = made().root
    git(source, "config", "uploadpack.allowFilter", "true")
    git(source, "config", "uploadpack.allowAnySHA1InWant", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{source}", str(clone))
    git(clone, "branch", "work", git(clone, "commit-tree", "-p", "HEAD", "-m", "work", "HEAD^{tree}"))
    source.rename(tmp_path / "away")
    world = World(clone, landing=Landing(verify=["true"], reruns=0))
    try:
        merge_id = world.submit("work")
        world.run(skip=False)
        merge = world.merge(merge_id)
        assert merge["state"] == "queued" and "not in this partial clone" in why(merge)
        assert "git fetch --refetch" in why(merge)
    finally:
        world.close()
