"""Rows as JSON, written by the database: a list takes half as long as one that is read column by column and written again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import JSON, Boolean, ColumnElement, Text, case, cast, func, literal_column


def json_row(dialect: str, fields: Mapping[str, ColumnElement[Any]]) -> ColumnElement[str]:
    """One column: the text of a JSON object.

    Args:
        dialect: The name of SQLAlchemy's: ``sqlite`` or ``postgresql``.
        fields: Its values, by names that need no quotes in SQL.
    """
    sqlite = dialect == "sqlite"
    made: list[ColumnElement[Any]] = []
    for name, column in fields.items():
        made += literal_column(f"'{name}'"), _sqlite(column) if sqlite else column
    if sqlite:
        return func.json_object(*made, type_=Text)
    return cast(func.json_build_object(*made), Text)


def _sqlite(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """It keeps both as something else, and says what they are by ``json``."""
    if isinstance(column.type, Boolean):
        return func.json(case((column, "true"), else_="false"))
    return func.json(column) if isinstance(column.type, JSON) else column
