"""Which months have measurements of some sources, and which have quantities."""

from collections import Counter
from collections.abc import Collection
from typing import Final

from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.values.period import aware, local_date, zone
from meterlake.model.values.sql import identifier
from meterlake.stores import Stores
from meterlake.stores.lake.tables import table_names

# No time zone is off by less; so a bucket lies in one month.
_BY_TIME: Final = """
    SELECT time_bucket(INTERVAL '15 minutes', ts) AS bucket, count(*) FROM lake.{table}
    WHERE source IN (SELECT unnest(?::VARCHAR[])) GROUP BY bucket"""

# Runs that older versions made are of months.
_MONTHS: Final = """
    SELECT DISTINCT coalesce(period, month) FROM lake.quantity
    WHERE coalesce(frequency, 'MONTHLY') = 'MONTHLY'"""


def count_by_month(stores: Stores, org_id: str, identities: Collection[str]) -> dict[str, int]:
    """Count the stored measurements of some sources by the organization's months.

    Args:
        stores: The home's stores.
        org_id: The organization.
        identities: Those of the sources.

    Raises:
        Unavailable: The lake failed.
    """
    if not identities:
        return {}
    with stores.state.reading(org_id) as reader:
        configuration = reader.configuration()
    timezone = zone(configuration.single(OrganizationConfig).entity.timezone)
    counts: Counter[str] = Counter()
    with stores.lake(org_id).reader() as connection:
        for name in table_names(connection):
            if not name.startswith(meter_table("")):
                continue
            query = _BY_TIME.format(table=identifier(name))
            for bucket, rows in connection.execute(query, [list(identities)]).fetchall():
                counts[f"{local_date(aware(bucket), timezone):%Y-%m}"] += rows
    return dict(sorted(counts.items()))


def list_months(stores: Stores, org_id: str) -> list[str]:
    """The months that have quantities, the oldest first.

    Raises:
        Unavailable: The lake failed.
    """
    with stores.lake(org_id).reader() as connection:
        rows = connection.execute(_MONTHS).fetchall()
    return sorted(str(month) for (month,) in rows if month)
