"""Alembic's entry: upgrades the database file that :func:`corral.store.migrate.alembic_config` names."""

from alembic import context
from sqlalchemy import URL, create_engine

from corral.store.schema import metadata

engine = create_engine(URL.create("sqlite", database=str(context.config.attributes["path"])))
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True, compare_type=True)
    with context.begin_transaction():
        context.run_migrations()
    connection.commit()
engine.dispose()
