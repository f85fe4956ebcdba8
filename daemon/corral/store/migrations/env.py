"""Alembic's entry: runs on the connection that :func:`corral.store.migrate.open_schema` holds."""

from alembic import context
from sqlalchemy import create_engine

from corral.store.schema import metadata

connection = context.config.attributes.get("connection")
if connection is None:
    connection = create_engine(f"sqlite:///{context.config.attributes['path']}").connect()
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True, compare_type=True)
with context.begin_transaction():
    context.run_migrations()
