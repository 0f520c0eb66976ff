"""The live lake by the names that people know: those of the published file."""

from datetime import tzinfo
from typing import Final

import duckdb

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.values.period import zone
from meterlake.pipeline.publish import tables as published_schema
from meterlake.pipeline.publish.documents import (
    ColumnRequest,
    Findings,
    about_document,
    documents_of,
)
from meterlake.stages.publish import statements
from meterlake.stages.publish.meters import PublishedMeter, measured_meters
from meterlake.stages.publish.tables import ABOUT_TABLE
from meterlake.stores import Organization
from meterlake.stores.lake.tables import newest_snapshot
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

# The table of accounts, by which all other tables and views name them.
ACCOUNT: Final = "account"
# The comments on all tables and columns, which the dictionary lists.
COMMENT: Final = "comment"


def create_views(
    connection: duckdb.DuckDBPyConnection,
    organization: Organization,
    needs: ColumnRequest = lambda _: True,
) -> None:
    """Create everything that the published file has, as views on a lake attached as `lake`.

    Args:
        connection: Where it is created; the lake is attached there.
        organization: The organization.
        needs: Whether something is needed, by its name: of State, nothing else is there. Views
            read ids and codes of accounts; the other columns of `account` are there if asked for.
    """
    published_schema.run(connection, statements.state_statements(needs))
    meters, timezone = _fill(connection, organization, needs)
    present = published_schema.lake_columns(connection)
    made = [statements.view_statement(name, query) for name, query in published_schema.lake_views()]
    made += [
        statements.view_statement(each.name, each.query(present.get(each.stored, ())))
        for each in meters
    ]
    made += [
        statements.view_statement(each.name, each.query)
        for each in statements.views_of(meters, timezone)
    ]
    published_schema.run(connection, made)
    if needs(COMMENT):
        published_schema.run(connection, statements.comments(meters, timezone, "VIEW"))
        published_schema.fill_dictionary(connection)


def _fill(
    connection: duckdb.DuckDBPyConnection, organization: Organization, needs: ColumnRequest
) -> tuple[list[PublishedMeter], tzinfo]:
    """Fill what is of State; give the meters and the organization's time zone."""
    with organization.reading() as reader:
        configuration = StoredConfiguration(reader)
        timezone = configuration.single(OrganizationConfig).entity.timezone
        meters = list(measured_meters(configuration.all(Meter)))
        names = {each.meter.id: each.name for each in meters}
        needed = statements.NEEDED if needs(ACCOUNT) else statements.NEEDED - {ACCOUNT}
        for table, documents in documents_of(
            reader,
            configuration,
            names,
            organization.now(),
            Findings.of(organization),
            lambda name: name in needed or needs(name),
        ):
            published_schema.fill_few(connection, table, documents)
        if not needs(ACCOUNT):
            codes = account_names.codes(reader)
            published_schema.insert(connection, ACCOUNT, ("id", "code"), codes)
    about = about_document(organization, timezone, newest_snapshot(connection))
    published_schema.fill_few(connection, ABOUT_TABLE, [about])
    return meters, zone(timezone)
