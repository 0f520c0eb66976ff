"""Sessions of catalogs in PostgreSQL: none stays in a transaction, and none outlives its machine."""

from contextlib import contextmanager

import pytest
from sqlalchemy import create_engine, make_url

from meterlake.pipeline.home.setup import initialize
from meterlake.stores import open_stores
from meterlake.stores.state.core.engine import Database, connection_options, parse_url
from tests.databases import new_database
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row, settings
from tests.organizations import Clock

OPEN = """
SELECT query FROM pg_stat_activity
WHERE datname = %s AND state LIKE 'idle in transaction%%'"""


@contextmanager
def open_transactions(url):
    """Who has a transaction open, whenever one asks."""
    engine = create_engine(parse_url(url), isolation_level="AUTOCOMMIT")
    with engine.connect() as session:
        yield lambda: session.exec_driver_sql(OPEN, (make_url(url).database,)).all()
    engine.dispose()


@pytest.mark.long
def test_no_transaction_stays_open_after_a_commit_and_after_a_query(postgresql, s3_lakes, tmp_path):
    url = new_database(postgresql)
    own = settings(
        tmp_path / "home",
        state=url,
        catalog=url,
        lake="s3://lakes/sessions",
        s3_endpoint=s3_lakes.url,
    )
    made = initialize(own, "Sample")
    with open_stores(own) as stores, open_transactions(url) as found:
        configure(stores.organization(made.org_id), meters=[EGRESS], accounts=ACCOUNTS)
        home = Home(stores, made.org_id, Clock())
        for number in range(2):
            assert home.ingest(f"{number}.csv", HEADER + csv_row(f"u{number}")).accepted == 1
            assert found() == []
        assert len(home.uids()) == 2
        assert found() == []


def test_a_transaction_that_is_open_would_be_seen(postgresql):
    url = new_database(postgresql)
    engine = create_engine(parse_url(url))
    with open_transactions(url) as found, engine.connect() as session:
        session.exec_driver_sql("SELECT 1")
        assert [row.query for row in found()] == ["SELECT 1"]
    engine.dispose()


def test_both_ends_ask_whether_the_other_one_is_there():
    options = connection_options(parse_url("postgresql://u@h/d"), 2)

    assert options["connect_timeout"] == 2
    assert options["keepalives_idle"] == 10
    assert "-c tcp_keepalives_idle=10 " in options["options"]


@pytest.mark.parametrize("name", ["connect_timeout", "keepalives_idle", "options"])
def test_the_url_says_something_else(name):
    url = parse_url(f"postgresql://u@h/d?{name}=7")

    assert name not in connection_options(url, 2)


def test_the_server_takes_what_it_is_told(postgresql):
    url = parse_url(new_database(postgresql))
    database = Database(url)
    with database.reading() as connection:
        given = connection.exec_driver_sql(
            "SELECT source FROM pg_settings WHERE name = 'tcp_keepalives_idle'"
        ).scalar()
    database.close()

    assert given == "client"
