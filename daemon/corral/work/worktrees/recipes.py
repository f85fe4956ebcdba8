"""Recipes: what a fresh worktree of a certain kind of project needs, read from the bundle's ``worktrees/*.yaml``.

A recipe is data. It names the folders that git does not carry (a virtual environment, ``node_modules``) and how each gets
into a worktree; :mod:`corral.work.worktrees.provision` does it. The format is described in ``worktrees/README.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from string import Formatter
from typing import Annotated, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from corral.core.errors import ConfigInvalid

PLACEHOLDERS = frozenset({"worktree", "name", "port", "ports"})
"""Names that a value of ``env`` may have in braces; a folder's values may name ``{folder}`` as well: its absolute path."""

DEEPEST = 3
"""Parts of a path at most in which a recipe finds its project."""


def _inside(text: str) -> str:
    parts = PurePosixPath(text).parts
    if not parts or text.startswith("/") or str(PurePosixPath(text)) != text or {"..", "**", ".git"} & set(parts):
        raise ValueError("must be a relative path inside the checkout, without '..', '**' and '.git'")
    return text


def _glob(text: str) -> str:
    if not text or text.startswith(("/", ":")) or {"..", ".git"} & set(PurePosixPath(text).parts):
        raise ValueError("must be a relative glob inside the checkout, without '..' and '.git'")
    return text


def _naming(known: frozenset[str]) -> AfterValidator:
    def check(text: str) -> str:
        unknown = {field for _, field, _, _ in Formatter().parse(text) if field is not None} - known
        if unknown:
            raise ValueError(f"unknown placeholder {min(unknown)!r}")
        return text

    return AfterValidator(check)


InsidePath = Annotated[str, AfterValidator(_inside)]
InsideGlob = Annotated[str, AfterValidator(_glob)]
Template = Annotated[str, _naming(PLACEHOLDERS)]
FolderTemplate = Annotated[str, _naming(PLACEHOLDERS | {"folder"})]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Folder(_Strict):
    """One folder that git does not carry, and how it gets into a worktree.

    Attributes:
        path: Where it is, relative to the checkout; ``*`` stands for one visible folder name.
        mode: ``clone`` makes a private copy, ``link`` a real folder of symlinks to the main checkout's children, ``skip``
            nothing: the worktree makes its own. A verification is given copies in both modes.
        holds: ``builds`` were made of the main checkout's sources: a verification is not given them.
        without_cow: What ``clone`` does on a file system without copy-on-write.
        relocate: Rewrite the main checkout's path to the worktree's in the files of a Python virtual environment.
        private: Children that ``link`` copies, because tools write into them or they find their project by their own place.
        omit: Children that are left out: caches that a worktree fills by itself.
        watch: Globs inside the folder (``.`` for itself) whose listing says what is installed. When it changes in the main
            checkout, a worktree that has not changed its own gets the folder again.
        env: Variables that are set when the worktree has the folder.
        path_prefixes: Folders put in front of ``PATH`` when the worktree has the folder.
    """

    path: InsidePath
    mode: Literal["clone", "link", "skip"]
    holds: Literal["dependencies", "builds"] = "dependencies"
    without_cow: Literal["copy", "skip"] = "copy"
    relocate: bool = False
    private: tuple[str, ...] = Field(default=(), strict=False)
    omit: tuple[str, ...] = Field(default=(), strict=False)
    watch: tuple[str, ...] = Field(default=(), strict=False)
    env: dict[str, FolderTemplate] = Field(default_factory=dict)
    path_prefixes: tuple[FolderTemplate, ...] = Field(default=(), strict=False)


class Recipe(_Strict):
    """How a worktree of one kind of project becomes usable.

    Attributes:
        name: The file's name without its suffix.
        detect: Globs, relative to the root; the recipe applies where one of them matches.
        folders: The folders that git does not carry.
        locks: Globs of the tracked files that decide what the folders hold; ``**`` stands for any number of folders.
        programs: Names of the programs whose version decides it too.
        setup: Command that makes the folders; run only where the user allowed it: for a verification, and for other
            worktrees if the main checkout has none.
        env: Variables that are always set.
    """

    name: str
    detect: tuple[InsidePath, ...] = Field(min_length=1, strict=False)
    folders: tuple[Folder, ...] = Field(default=(), strict=False)
    locks: tuple[InsideGlob, ...] = Field(default=(), strict=False)
    programs: tuple[str, ...] = Field(default=(), strict=False)
    setup: str | None = None
    env: dict[str, Template] = Field(default_factory=dict)


def load_recipes(bundle: Path) -> list[Recipe]:
    """Read every recipe of the bundle, in order of name.

    Args:
        bundle: The folder that holds ``worktrees/``.

    Raises:
        ConfigInvalid: A recipe is not valid; ``details['errors']`` has ``file``, ``field`` and ``reason`` of every fault.
    """
    recipes: list[Recipe] = []
    errors: list[dict[str, str]] = []
    for file in sorted((bundle / "worktrees").glob("*.yaml")):
        try:
            data = yaml.safe_load(file.read_text(encoding="utf-8"))
            if not isinstance(data, dict):
                raise ValueError("a recipe is a mapping")
            recipes.append(Recipe.model_validate({"name": file.stem, **data}))
        except ValidationError as invalid:
            errors += [
                {"file": file.name, "field": ".".join(map(str, fault["loc"])), "reason": fault["msg"]}
                for fault in invalid.errors()
            ]
        except (yaml.YAMLError, ValueError) as unreadable:
            errors.append({"file": file.name, "field": "", "reason": " ".join(str(unreadable).split())})
    if errors:
        first = errors[0]
        raise ConfigInvalid(
            f"The recipe {first['file']} is not valid: {first['field'] or 'the file'}: {first['reason']}",
            cause="A file in the bundle's worktrees/ folder does not fit the format of worktrees/README.md.",
            details={"errors": errors},
        )
    return recipes


def matching(recipes: list[Recipe], checkout: Path) -> list[Recipe]:
    """The recipes that apply to a checkout, in their order."""
    return [recipe for recipe in recipes if any(any(checkout.glob(glob)) for glob in recipe.detect)]


def of_files(recipes: list[Recipe], names: Sequence[str] | None, files: Iterable[str]) -> list[Recipe]:
    """The recipes that apply to a tree, by the paths of its files: as :func:`matching` finds them where it is checked out.

    Args:
        names: The names of the recipes that are allowed; None: all.
    """
    paths = [path.split("/") for path in files]
    allowed = [recipe for recipe in recipes if names is None or recipe.name in names]
    return [recipe for recipe in allowed if any(_fits(parts, recipe) for parts in paths)]


def _fits(parts: list[str], recipe: Recipe) -> bool:
    globs = (glob.split("/") for glob in recipe.detect)
    return any(len(glob) == len(parts) and all(map(fnmatchcase, parts, glob)) for glob in globs)
