"""Files that a test lays out: with the folders above them, and programs of its own."""

from __future__ import annotations

from pathlib import Path


def put(path: Path, text: str) -> Path:
    """Write a file; the folders above it are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def executable(path: Path, text: str) -> Path:
    """Write a program; the folders above it are made."""
    put(path, text).chmod(0o755)
    return path
