"""What the migrations make of nothing, as SQL: ``python -m tests.new_database`` writes it where a new database is made from."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from alembic import command

from corral.store.migrate import HEAD, NEW, alembic_config


def migrated(path: Path) -> None:
    """Make a database by all migrations."""
    command.upgrade(alembic_config(path), HEAD)


def statements(path: Path) -> Iterator[str]:
    """What makes a database with the same tables and rows, in the same order; FTS5 makes its own tables again."""
    with contextlib.closing(sqlite3.connect(path)) as conn:
        made = conn.execute("SELECT type, name, sql FROM sqlite_master WHERE sql NOT NULL ORDER BY rowid").fetchall()
        virtual = [name for _, name, sql in made if sql.startswith("CREATE VIRTUAL TABLE")]
        for kind, name, sql in made:
            if kind != "table" or not name.startswith(tuple(f"{index}_" for index in virtual)):
                yield in_order(line.rstrip().expandtabs(4) for line in sql.splitlines() if line.strip())
        for kind, name, _ in made:
            if kind == "table" and not name.startswith(tuple(virtual)):
                for row in conn.execute(f'SELECT * FROM "{name}"'):
                    yield f"INSERT INTO {name} VALUES ({', '.join(map(repr, row))});\n"


def in_order(lines: Iterable[str]) -> str:
    """A statement with its constraints by name: where Alembic writes a table again, their order is not always the same."""
    found = list(lines)
    named = [index for index, line in enumerate(found) if line.lstrip().startswith("CONSTRAINT")]
    for index, line in zip(named, sorted(found[index].rstrip(",") for index in named), strict=True):
        found[index] = line if index == named[-1] else f"{line},"
    return "\n".join(found) + ";\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "corral.db")
        migrated(file)
        NEW.write_text("".join(statements(file)), encoding="utf-8")
