"""Alembic's entry: upgrades the database that :func:`corral.store.migrate.alembic_config` names."""

from alembic import context
from sqlalchemy import create_engine

from corral.store.table import metadata

engine = create_engine(context.config.attributes["url"])
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True, compare_type=True)
    with context.begin_transaction():
        context.run_migrations()
    connection.commit()
engine.dispose()
