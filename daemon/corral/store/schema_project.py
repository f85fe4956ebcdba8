"""The tables about the project as a whole: whose database it is, and what is paused or switched on for all of it.

The conventions are those of :mod:`corral.store.schema`.
"""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, Integer, String, Table, Text

from corral.store.schema import metadata

target_pauses = Table(
    "target_pauses",
    metadata,
    Column("target", Text, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("since_at", String(24), nullable=False),
    Column("look_at", String(24), nullable=False),
)

work_pause = Table(
    "work_pause",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("reason", Text, nullable=True),
    Column("since_at", String(24), nullable=False),
    CheckConstraint("id = 1", name="single"),
)

roadmap_supervision = Table(
    "roadmap_supervision",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("since_at", String(24), nullable=False),
    CheckConstraint("id = 1", name="single"),
)

project_identity = Table(
    "project_identity",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("project_id", String(36), nullable=False),
    Column("root", Text, nullable=False),
    Column("common_dir", Text, nullable=False),
    Column("folder_id", String(48), nullable=False),
    Column("created_at", String(24), nullable=False),
    CheckConstraint("id = 1", name="single"),
)
