"""Repositories of templates, as their maintainers have them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import commit, git

AGENT = "---\nname: reviewer\ndescription: Reviews a change.\n---\n\nRead the change.\nSay what is wrong.\n"
TASK = "name: page\ndescription: Write a page.\nprompt: Write it.\n"
FILES = {
    ".corral/config.yaml": "landing:\n  rest_s: 2\n\ntasks:\n  max_retries: 2\n\nlocks:\n  ttl_s: 1800\n",
    ".claude/agents/reviewer.md": AGENT,
    ".corral/templates/page.yaml": TASK,
    ".mcp.json": json.dumps({"mcpServers": {"search": {"command": "search-server", "args": ["--stdio"]}}}) + "\n",
    "README.md": "Ours.\n",
}


def template(place: Path, tag: str | None = "v1.0.0", **files: str) -> Path:
    """A repository with the usual template, tagged."""
    place.mkdir(parents=True)
    git(place, "init", "-q", "-b", "main")
    release(place, tag, {**FILES, **files})
    return place


def release(place: Path, tag: str | None, files: dict[str, str]) -> str:
    """Another version of it; returns the commit."""
    sha = commit(place, files, tag or "change")
    if tag:
        git(place, "tag", tag)
    return sha
