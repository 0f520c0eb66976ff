"""The books balance; where one number is changed, the check says which, and of which source."""

import pytest

from meterlake.model.errors import NotReconciled
from meterlake.model.resources.events import BOOKS_ALERT, fields_of
from meterlake.pipeline.events.events import EventFilters, list_events
from meterlake.pipeline.home.alerts import check_alerts
from meterlake.pipeline.ingest import commit
from meterlake.pipeline.maintenance.maintain import maintain
from meterlake.pipeline.maintenance.reconciliation import check_reconciliation
from meterlake.stores.state.core.pages import Page
from tests.databases import copy_home
from tests.homes import EGRESS, HEADER, a_home, configure, csv_row, open_home


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    with a_home(tmp_path_factory.mktemp("books")) as home:
        fill(home)
    return home.stores.home, home.org_id


@pytest.fixture
def filled(template, tmp_path):
    path = copy_home(template[0], tmp_path / "home")
    with open_home(path, template[1]) as opened:
        yield opened


def fill(home):
    good = HEADER + csv_row("u1") + csv_row("u2") + csv_row("u2")
    home.ingest("good.csv", good)
    home.ingest("good again.csv", good)
    home.ingest("mixed.csv", HEADER + csv_row("u1", 7) + csv_row("u3", "x") + csv_row("u4"))
    home.ingest("broken.csv.gz", b"no gzip")


def told(home):
    filters = EventFilters(event_name=BOOKS_ALERT)
    found = list_events(home.organization, filters, Page(100, None))
    return [each["m3terEvent"]["eventData"]["newDto"] for each in found["data"]]


def change(home, statement):
    lake = home.organization.lake
    with lake.lock(), lake.transaction() as connection:
        connection.execute(statement)


def test_an_empty_lake_balances(home):
    assert check_reconciliation(home.organization).balanced


@pytest.mark.long
def test_what_was_ingested_balances_also_after_maintenance(filled):
    books = check_reconciliation(filled.organization)
    maintain(filled.organization)

    assert books.differences == ()
    assert check_reconciliation(filled.organization) == books
    assert books.measurements == books.totals["accepted"] == 3
    assert books.totals["sources"] == 4
    assert told(filled) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("statement", "what", "name"),
    [
        (
            "UPDATE lake.source SET repeats = repeats + 1 WHERE name = 'mixed.csv'",
            "received = accepted + repeats + rejected",
            "mixed.csv",
        ),
        (
            "INSERT INTO lake.source FROM lake.source WHERE name = 'good again.csv'",
            "entries of one attempt",
            "good again.csv",
        ),
        ("DELETE FROM lake.rejected WHERE uid = 'u3'", "rejected rows", "mixed.csv"),
        ("DELETE FROM lake.uid_index WHERE uid = 'u4'", "known uids", "mixed.csv"),
        (
            "INSERT INTO lake.uid_index SELECT * FROM lake.uid_index WHERE uid = 'u4'",
            "known uids",
            "mixed.csv",
        ),
        (
            "DELETE FROM lake.{egress} WHERE uid = 'u1'",
            "measurements in the tables of meters",
            "good.csv",
        ),
        (
            "UPDATE lake.{egress} SET source = 'somewhere' WHERE uid = 'u4'",
            "measurements in the tables of meters",
            "mixed.csv",
        ),
        (
            "UPDATE lake.source SET incomplete = 1 WHERE name = 'mixed.csv'",
            "measurements without a derived value",
            "mixed.csv",
        ),
        (
            """UPDATE lake.{egress} SET "measure.gb" = 2 WHERE uid = 'u4'""",
            "contents of some measurements",
            "mixed.csv",
        ),
    ],
)
def test_a_changed_number_is_found_and_raises_one_alert(filled, statement, what, name):
    [table] = [each for each in filled.organization.lake.tables() if each.startswith("m_")]
    change(filled, statement.format(egress=f'"{table}"'))
    for _ in range(2):
        books = check_reconciliation(filled.organization)

    assert not books.balanced
    assert (what, name) in {(each.what, each.name) for each in books.differences}
    [alert] = told(filled)
    assert what in " ".join(alert["differences"])
    assert {f"new.{member}" for member in alert} == set(fields_of(BOOKS_ALERT))


@pytest.mark.long
def test_contents_are_those_of_the_fields_that_the_meter_had(filled):
    fields = [*EGRESS["dataFields"], {"category": "OTHER", "code": "late", "name": "Late"}]
    configure(filled.organization, meters=[EGRESS | {"dataFields": fields}])
    assert check_reconciliation(filled.organization).balanced

    row = csv_row("u9", "-0.000000000001").strip() + ",x\n"
    filled.ingest("wider.csv", HEADER.strip() + ",other.late\n" + row)

    assert check_reconciliation(filled.organization).balanced


def test_a_source_whose_numbers_are_wrong_is_not_committed_and_raises_the_alert(home, monkeypatch):
    data = HEADER + csv_row("u1") + csv_row("u2") + csv_row("u3") + csv_row("u3")
    with monkeypatch.context() as broken:
        broken.setattr(commit, "_recount", lambda receipt, _: receipt)
        with pytest.raises(
            NotReconciled,
            match=r"wrong\.csv was stored: 4 rows .* but 3 are there; deliver the file again",
        ):
            home.ingest("wrong.csv", data)

    assert home.ledger() == home.measurements() == []
    home.check()
    assert len(told(home)) == 1
    assert home.ingest("wrong.csv", data).accepted == 3
    assert check_reconciliation(home.organization).balanced
    assert told(home) == []


@pytest.mark.long
def test_the_incident_is_over_when_the_books_balance_again(filled):
    change(filled, "UPDATE lake.source SET rejected = 5 WHERE name = 'mixed.csv'")
    check_reconciliation(filled.organization)
    change(filled, "UPDATE lake.source SET rejected = 2 WHERE name = 'mixed.csv'")

    assert check_reconciliation(filled.organization).balanced
    assert told(filled) == []


@pytest.mark.long
@pytest.mark.happens("ingest.books.alert")
def test_books_that_do_not_balance_are_among_the_open_alerts_until_they_do(filled):
    change(filled, "UPDATE lake.source SET rejected = 5 WHERE name = 'mixed.csv'")
    check_reconciliation(filled.organization)
    for _ in range(2):
        [alert] = check_alerts(filled.organization)
        assert (alert.name, alert.subject) == (BOOKS_ALERT, filled.org_id)

    change(filled, "UPDATE lake.source SET rejected = 2 WHERE name = 'mixed.csv'")
    check_reconciliation(filled.organization)
    assert check_alerts(filled.organization) == []
