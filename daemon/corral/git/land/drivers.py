"""Merge drivers: programs of this clone's configuration that merge the files for which ``.gitattributes`` names them.

They cannot be switched off, and no other clone need have them: what they may have merged is told.
"""

from __future__ import annotations

from corral.git import refs
from corral.git.process.command import Git


def used(checkout: Git, tip_sha: str) -> dict[str, list[str]]:
    """The files in which the commit of a checkout differs from a tip and that a configured driver merges, by its name."""
    listed = checkout.run("config", "--name-only", "--get-regexp", r"^merge\..*\.driver$").text.splitlines()
    drivers = {key.removeprefix("merge.").removesuffix(".driver") for key in listed}
    head = checkout.head()
    if not drivers or head is None:
        return {}
    paths = "\0".join(refs.changed_paths(checkout, tip_sha, head)).encode("utf-8", "surrogateescape")
    fields = checkout.check("check-attr", "-z", "--stdin", "merge", input=paths).text.split("\0")
    found: dict[str, list[str]] = {}
    for path, driver in zip(fields[::3], fields[2::3], strict=False):
        if driver in drivers:
            found.setdefault(driver, []).append(path)
    return found
