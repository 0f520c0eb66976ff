"""Little memory for DuckDB, much to do: queries spill or end with a clear error; the home works on."""

from decimal import Decimal

import pytest

from meterlake.model.errors import Unavailable
from meterlake.model.values.period import Month
from meterlake.pipeline.publish.query import query
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores import open_stores
from tests.benchmarks.filled import fill
from tests.bills import aggregation
from tests.homes import HEADER, Home, configure, csv_row, new_home, settings
from tests.organizations import Clock

ROWS = 2_000_000
MEMORY = "256MB"
# A value and a region of its own for every row: what tells them apart is what takes memory.
SELECT = """
    SELECT 'uid-' || range AS uid, $accounts[1 + range % len($accounts)] AS account_id,
        TIMESTAMP '2026-09-01' + to_seconds(range % 2500000) AS ts, NULL::TIMESTAMP AS ets,
        (range % 1000)::DECIMAL(38,12) AS "measure.gb", 'region-' || range AS "where.region",
        TIMESTAMP '2026-10-01' AS received_at, 'filled' AS source,
        range::BIGINT AS row, 0::SMALLINT AS part
    FROM range($first::BIGINT, $last::BIGINT)"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("little") / "home"
    org_id = new_home(folder)
    with open_stores(settings(folder, duckdb_memory=MEMORY)) as stores:
        organization = stores.organization(org_id)
        distinct = aggregation("regions", "UNIQUE", targetField="region")
        configure(organization, aggregations=[aggregation("sent", "SUM"), distinct])
        fill(organization, SELECT, ROWS)
        yield Home(stores, org_id, Clock())


@pytest.mark.slow
def test_quantities_of_millions_of_rows_are_right(home):
    aggregate(home.organization, Month(2026, 9))
    found = home.query(
        "SELECT sum(CAST(quantity AS DECIMAL(38,12))), count(*) FROM lake.quantity"
        " GROUP BY aggregation_id ORDER BY 1"
    )

    assert found == [(Decimal(ROWS), 2), (Decimal(sum(range(1000)) * (ROWS // 1000)), 2)]


@pytest.mark.slow
def test_a_query_spills(home):
    statement = "SELECT uid, region FROM egress ORDER BY region DESC, uid LIMIT 3 OFFSET 1500000"
    with query(home.organization, statement) as answer:
        rows = list(answer.rows)

    names = sorted((f"region-{n}" for n in range(ROWS)), reverse=True)[1_500_000:1_500_003]
    assert [region for _, region in rows] == names


@pytest.mark.slow
def test_what_cannot_spill_is_told_and_the_home_works_on(home):
    statement = "SELECT length(string_agg(repeat(region, 100), ',')) FROM egress"
    with (
        pytest.raises(Unavailable, match=r"[Mm]emory"),
        query(home.organization, statement) as answer,
    ):
        list(answer.rows)
    receipt = home.ingest("after.csv", HEADER + csv_row("after", 1, ts="2026-08-03T10:00:00Z"))

    assert receipt.accepted == 1
