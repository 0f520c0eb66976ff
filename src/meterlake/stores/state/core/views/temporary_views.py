"""Views before the tables of the present, which last as long as the transaction of a reader."""

from collections.abc import Iterable, Iterator

from sqlalchemy import Connection, Table

from meterlake.model.resources import BY_KIND, values_at
from meterlake.model.values.entity import Entity


class TemporaryViews:
    """Views of an organization, in the words of the database at hand."""

    def __init__(self, connection: Connection, org_id: str) -> None:
        """Begin.

        Args:
            connection: Of the reader.
            org_id: The organization.
        """
        self._connection = connection
        self._is_sqlite = connection.dialect.name == "sqlite"
        self._schema = "main"
        if not self._is_sqlite:  # The one that has the tables of a database server.
            found = connection.exec_driver_sql("SELECT current_schema()")
            self._schema = str(found.scalar_one())
        self._org = "'" + org_id.replace("'", "''") + "'"

    def _show(self, queries: Iterable[tuple[Table, str]]) -> None:
        """Put views before tables.

        Args:
            queries: What is read instead of each table.
        """
        for table, query in queries:
            self._run(f"CREATE TEMP VIEW {table.name} AS {query}")
        if not self._is_sqlite:
            # Another path than before has prepared statements look for the names again.
            self._run(f'SET LOCAL search_path = pg_temp, "{self._schema}"')

    def _run(self, statement: str) -> None:
        self._connection.exec_driver_sql(statement.replace("%", "%%"))

    def _table(self, table: Table) -> str:
        return f'"{self._schema}"."{table.name}"'


def columns_of(table: Table, alias: str, named: dict[str, str]) -> str:
    """The columns of a table by their names, some of them as something else."""
    each = ((column.name, f'{alias}."{column.name}"') for column in table.columns)
    return ", ".join(f'{named.get(name, own)} AS "{name}"' for name, own in each)


def references_of(org_id: str, kind: str, id: str, entity: Entity) -> Iterator[dict[str, str]]:
    """What an entity refers to by ids; whoever reads what is not the present looks up no codes."""
    for path, target_kind in BY_KIND[kind].refs.items():
        for field, target in values_at(entity, path):
            yield {
                "org": org_id,
                "kind": kind,
                "id": id,
                "field": field,
                "target_kind": target_kind.__name__,
                "target_id": target,
            }
