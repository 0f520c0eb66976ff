"""The live lake by the names that people know: those of the published file."""

import duckdb

from meterlake.model.catalog import Meter
from meterlake.pipeline import door
from meterlake.pipeline.publish_documents import Asked, documents_of
from meterlake.pipeline.version import code_version
from meterlake.stages.publish.meters import Measured, measured
from meterlake.stages.publish.tables import ABOUT_TABLE, DICTIONARY
from meterlake.stores import Stores
from meterlake.stores.lake_tables import newest_snapshot


def create_views(
    connection: duckdb.DuckDBPyConnection,
    stores: Stores,
    org_id: str,
    asked: Asked = lambda _: True,
) -> None:
    """Create everything that the published file has, as views on a lake attached as `lake`.

    Args:
        connection: Where it is created; the lake is attached there.
        stores: The home's stores.
        org_id: The organization.
        asked: Whether something is needed, by its name: of State, nothing else is there.
    """
    door.run(connection, door.state_statements(asked))
    meters = _fill(connection, stores, org_id, asked)
    present = door.lake_columns(connection)
    statements = [door.view_statement(name, query) for name, query in door.lake_views()]
    statements += [
        door.view_statement(each.name, each.query(present.get(each.stored, ()))) for each in meters
    ]
    statements += [door.view_statement(each.name, each.query) for each in door.views_of(meters)]
    door.run(connection, statements)
    if asked(DICTIONARY.name) or asked("comment"):
        door.run(connection, door.comments(meters, "VIEW"))
        door.fill_dictionary(connection)


def _fill(
    connection: duckdb.DuckDBPyConnection, stores: Stores, org_id: str, asked: Asked
) -> list[Measured]:
    with stores.state.reading(org_id) as reader:
        configuration = reader.configuration()
        meters = list(measured(configuration.all(Meter)))
        names = {each.meter.id: each.name for each in meters}
        for table, documents in documents_of(
            reader, configuration, names, lambda name: name in door.NEEDED or asked(name)
        ):
            door.fill(connection, table, door.rows_of(table, documents))
    organization = stores.state.organization(org_id)
    about = {
        "organization": organization.name,
        "organizationCode": organization.code,
        "publishedAt": stores.now(),
        "snapshot": newest_snapshot(connection),
        "meterlake": code_version(),
    }
    door.fill(connection, ABOUT_TABLE, door.rows_of(ABOUT_TABLE, [about]))
    return meters
