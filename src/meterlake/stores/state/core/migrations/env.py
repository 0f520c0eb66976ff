"""Alembic's entry: runs the migrations inside the transaction that `engine.migrate` opened."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
