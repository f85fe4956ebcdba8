"""Worktrees of tasks are complete in a sparse checkout unless a setting says otherwise, and doctor names what is not whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import commit, git
from tests.support.coordinated import Coordinated


def codes(house: Coordinated) -> dict[str, tuple[str, str]]:
    answer = json.loads(house.run("doctor", "--json", check=False).stdout)
    return {check["check"]: (check["message"], check["remedy"]) for check in answer}


@pytest.mark.req("G19")
def test_worktrees_of_a_sparse_checkout_are_complete_unless_set_otherwise(
    make_repo: Callable[..., Path], coordinate: Callable[..., Coordinated]
) -> None:
    house = coordinate(make_repo("sparse", {f"d{n}/f": "x\n" for n in range(4)}))
    git(house.root, "sparse-checkout", "set", "d0")
    made = Path(house.json("worktree", "create", "whole")["path"])
    assert (made / "d3" / "f").exists() and git(made, "status", "--porcelain") == ""
    assert "S d3/f" not in git(made, "ls-files", "-t")
    git(made, "checkout", "-q", "HEAD~0")
    assert (made / "d3" / "f").exists(), "nor does a command in it make it sparse"
    message, remedy = codes(house)["git.sparse"]
    assert "/d0/" in message and "complete anyway" in message and "worktrees.sparse true" in remedy
    house.configure("worktrees: {sparse: true}\n")
    part = Path(house.json("worktree", "create", "part")["path"])
    assert (part / "d0" / "f").exists() and not (part / "d3").exists()
    house.carry_out("everything", "test ! -e d3 && mkdir -p d0 && echo y > d0/f")
    assert git(house.root, "show", "main:d3/f") == "x" and git(house.root, "show", "main:d0/f") == "y"


def test_doctor_names_what_makes_this_clone_differ_from_a_fresh_one(
    make_repo: Callable[..., Path], coordinate: Callable[..., Coordinated]
) -> None:
    house = coordinate(make_repo("clone", {"a.bin": "x\n", ".gitattributes": "*.bin filter=lfs -text\n"}))
    inner = make_repo("inner", {"f": "x\n"})
    git(house.root, "-c", "protocol.file.allow=always", "submodule", "-q", "add", str(inner), "sub")
    commit(house.root, {"b.txt": "b\n"})
    git(house.root, "replace", git(house.root, "rev-parse", "HEAD:b.txt"), git(house.root, "rev-parse", "HEAD:a.bin"))
    (house.root / ".git/info/attributes").write_text("* text\n")
    git(house.root, "config", "core.autocrlf", "true")
    git(house.root, "config", "core.symlinks", "false")
    git(house.root, "config", "remote.origin.promisor", "true")
    drifts = codes(house)
    expected = {
        "git.replaced-objects": "refs/replace/",
        "git.own-attributes": "info/attributes",
        "git.own-conversion": "core.autocrlf=true",
        "git.no-symlinks": "core.symlinks",
        "git.partial-clone": "partial clone",
        "git.submodules": "sub",
        "git.filter-missing": "the filter lfs",
    }
    assert {name: text for name, text in expected.items() if text not in drifts.get(name, ("",))[0]} == {}
    assert drifts["git.filter-missing"][1] == "`git lfs install`"
