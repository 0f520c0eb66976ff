import pytest

from meterlake.model.measurements.measurement import LAKE_TABLES
from meterlake.stores.lake import quantities
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.tables import columns_at

RUN = ("frequency", "period", "month", "snapshot", "computed_at")


@pytest.fixture
def lake(tmp_path):
    made = Lake(tmp_path / "lake")
    made.create()
    yield made
    made.close()


@pytest.mark.long
def test_a_table_has_the_columns_of_its_snapshot(lake):
    with lake.lock(), lake.transaction() as connection:
        connection.execute("CREATE TABLE lake.m_1 (uid VARCHAR)")
    first = lake.snapshot()
    with lake.lock(), lake.transaction() as connection:
        connection.execute('ALTER TABLE lake.m_1 ADD COLUMN "measure.n" INTEGER')
    with lake.reader() as connection:
        assert columns_at(connection, "m_1", first) == {"uid"}
        assert columns_at(connection, "m_1", lake.snapshot()) == {"uid", "measure.n"}
        assert columns_at(connection, "m_1", first - 1) == set()
        assert columns_at(connection, "m_2", first) == set()


def test_a_sum_with_too_many_digits_has_no_rows(lake):
    large = "CAST('9' || repeat('0', 25) AS DECIMAL(38, 12))"
    with lake.reader() as connection:
        assert quantities.rows(connection, "SELECT 1 WHERE 2 = $two", {"two": 2}) == [(1,)]
        assert quantities.rows(connection, f"SELECT sum({large}) FROM range(9)", {}) is None


def test_a_run_has_every_column_of_the_table():
    assert {*quantities.SCHEMA, "run_id", *RUN} == {*LAKE_TABLES["quantity"]}
    assert {*quantities.STATEMENT_SCHEMA, "run_id", "snapshot"} == {
        *LAKE_TABLES["quantity_statement"]
    }
