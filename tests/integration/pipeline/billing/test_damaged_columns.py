"""Whatever column of State is damaged in one row: the account of the row may fail, all others are billed."""

import logging
import re
from datetime import UTC, datetime

import pytest
from sqlalchemy import BigInteger, Boolean, Integer, Text, text
from sqlalchemy.exc import DBAPIError

from meterlake.model.configuration.access import Principal, PrincipalType
from meterlake.model.customers.balances import Balance
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.balances.balances import create_transaction
from meterlake.pipeline.billing.jobs import bucket_tasks
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.stores.state.billing.late_usage.lists import list_late_usage
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.core.reader import DamagedRow
from meterlake.stores.state.core.tables import (
    METADATA,
    DayText,
    InstantText,
    RecordDay,
    RecordInstant,
)
from tests.bills import a_home_to_bill, use
from tests.databases import copy_home
from tests.homes import HEADER, configure, csv_row, open_home
from tests.late_bills import choose, schedule
from tests.long_cases import long_after
from tests.runners import RUNNERS

AUGUST, SEPTEMBER = Month(2026, 8), Month(2026, 9)
CODES = ("acme", "bolt")
BROKEN = "{broken"
OF_ACME = "account_id = :acme"
OF_BILLS = "bill_id IN (SELECT id FROM bill WHERE account_id = :acme)"
REFERRING = "SELECT id FROM entity_reference WHERE target_id = :acme"
OF_ENTITIES = f"(kind = 'Account' AND id = :acme) OR id IN ({REFERRING})"
OF_BALANCES = f"source_id IN ({REFERRING})"
# The rows of one account, by table. Nothing else of an account is read when bills are made.
OWN = {
    "bill": OF_ACME,
    "bill_line": OF_BILLS,
    "bill_memo": OF_BILLS,
    "bill_version": OF_ACME,
    "bill_version_line": OF_BILLS,
    "entity": OF_ENTITIES,
    "entity_history": OF_ENTITIES,
    "entity_reference": "target_id = :acme",
    "event": OF_ACME,
    # What is undecided is read by each run.
    "late_usage": f"{OF_ACME} AND status = 'REPORTED'",
    "late_usage_line": "late_usage_id IN (SELECT id FROM late_usage WHERE account_id = :acme)",
    "posting": OF_BALANCES,
    "unbilled_usage": OF_ACME,
}
# Tables of accounts that no bill is made from.
NOT_READ = {
    *("integration_run", "marketplace_bill", "marketplace_record", "bill_statement"),
    "statement_job",
}
ALL_COLUMNS = [
    (table.name, column)
    for table in METADATA.sorted_tables
    if table.name in OWN
    for column in table.c
    if not isinstance(column.type, (BigInteger, Boolean, Integer)) and column.name != "org"
    # A row of which that is damaged is not known to be one of the account.
    if (table.name, column.name) != ("entity", "kind")
]
# Names of people, days and instants of a table are read alike: one column of each type is enough.
READ_ALIKE = (Text, DayText, InstantText, RecordDay, RecordInstant)
COLUMNS = [
    (table, column.name)
    for number, (table, column) in enumerate(ALL_COLUMNS)
    if column.name in {"amount", "total"}
    or type(column.type) not in READ_ALIKE
    or (table, type(column.type), column.nullable)
    not in {(name, type(each.type), each.nullable) for name, each in ALL_COLUMNS[:number]}
]
# Those of which each is read in a way of its own.
FEW = {
    *(("bill", "frequency"), ("entity", "created"), ("entity", "body"), ("posting", "amount")),
    *(("bill_memo", "line"), ("late_usage", "sources"), ("late_usage_line", "amount")),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory, lake_location):
    """Two accounts with plans, balances and bills; both have used more since."""
    del lake_location  # It is made again where the lakes are elsewhere.
    with a_home_to_bill(tmp_path_factory.mktemp("damaged")) as home:
        term = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2027-01-01T00:00:00Z"}
        facts = {"currency": "USD", "name": "Prepaid", **term}
        configure(
            home.organization,
            balances=[{"code": each, "accountId": each, **facts} for each in CODES],
        )
        who = Principal(PrincipalType.SERVICEUSER, "7", home.org_id, "key")
        with home.organization.reading() as reader:
            balances = [each.id for each in reader.all(Balance)]
        for each in balances:
            create_transaction(home.organization, who.author, each, {"amount": 20})
        bill(home.organization, AUGUST, approve=True)
        bill(home.organization, SEPTEMBER)
        carry_late_usage(home)
        use(home, ("9", "acme", 10), ("10", "bolt", 10))
        return home.stores.home, home.org_id


def carry_late_usage(home):
    """Usage of August comes late twice: memos on September's bills carry the first, nothing the second."""
    home.clock.time = datetime(2026, 9, 15, tzinfo=UTC)
    for policy in ("CARRY_FORWARD", "REPORT"):
        rows = (csv_row(policy + each, 1, each, ts="2026-08-05T10:00:00Z") for each in CODES)
        home.ingest(f"{policy}.csv", HEADER + "".join(rows))
        choose(home, policy)
        schedule(home)


@pytest.fixture
def opened(template, tmp_path, caplog):
    caplog.set_level(logging.CRITICAL)
    path, org_id = template

    def open_copy(**settings):
        return open_home(copy_home(path, tmp_path / "home"), org_id, **settings)

    return open_copy


def damage(home, table, column):
    """Damage a column of one row of acme; whether the database lets anybody do that."""
    [acme] = [id_ for id_, code in home.account_codes().items() if code == "acme"]
    key = [each.name for each in METADATA.tables[table].primary_key]
    names = ", ".join(f'"{each}"' for each in key)
    first = f'SELECT {names} FROM "{table}" WHERE {OWN[table]} ORDER BY {names} LIMIT 1'
    statement = f'UPDATE "{table}" SET "{column}" = :broken WHERE ({names}) IN ({first})'
    try:
        with home.organization.transaction("someone") as transaction:
            values = {"broken": BROKEN, "acme": acme}
            return transaction.connection.execute(text(statement), values).rowcount == 1
    except DBAPIError:
        return False


def test_each_table_of_accounts_is_tried_or_named():
    has = {"account_id", "bill_id", "from_account"}
    found = {each.name for each in METADATA.sorted_tables if has & set(each.c.keys())}
    assert found - OWN.keys() == NOT_READ


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "column"),
    [
        pytest.param(*each, marks=() if each in FEW else pytest.mark.slow, id=".".join(each))
        for each in COLUMNS
    ],
)
def test_all_others_are_billed(opened, table, column):
    with opened() as home:
        is_damaged = damage(home, table, column)
        result = bill(home.organization, SEPTEMBER)

        assert {each.account_code for each in result.failures} <= {"acme"}
        assert "bolt" in {each.account_code for each in result.bills}
        if (table, column) in FEW:
            assert is_damaged


@pytest.mark.parametrize(
    ("table", "column"),
    [
        pytest.param(*each, marks=() if each in FEW else pytest.mark.slow, id=".".join(each))
        for each in COLUMNS
        if each[0] in {"bill_memo", "late_usage", "late_usage_line"}
    ],
)
@pytest.mark.parametrize("status", long_after(1, ["CARRIED", "REPORTED"]))
def test_late_usage_of_all_others_is_settled(opened, monkeypatch, status, table, column):
    """The bills of August are made again: they have the usage, and what memos carry is taken back."""
    of_status = f"SELECT id FROM late_usage WHERE {OF_ACME} AND status = '{status}'"
    monkeypatch.setitem(OWN, "late_usage", f"id IN ({of_status})")
    monkeypatch.setitem(OWN, "late_usage_line", f"late_usage_id IN ({of_status})")
    with opened() as home:
        is_damaged = damage(home, table, column)
        result = bill(home.organization, AUGUST)
        settled = [each.status.value for each in lates(home, "bolt")]

    assert {each.account_code for each in result.failures} <= {"acme"}
    assert sorted(settled) == ["CARRIED", "CARRIED", "RECALCULATED"]
    assert is_damaged or (table, column) not in FEW


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "column"), [each for each in sorted(FEW) if each[0].startswith("late")]
)
def test_late_usage_of_all_others_is_decided_by_scheduled_billing(opened, table, column):
    with opened() as home:
        assert damage(home, table, column)
        rows = (csv_row(f"new-{each}", 1, each, ts="2026-08-05T10:00:00Z") for each in CODES)
        home.ingest("new.csv", HEADER + "".join(rows))
        result = schedule(home)
        reported = [each.difference for each in lates(home, "bolt") if each.is_open]

    assert {each.account_code for each in result.failures} <= {"acme"}
    assert reported == [2]


def lates(home, account):
    """What there is of late usage of an account."""
    with home.organization.reading() as reader:
        [id_] = account_names.ids_of(reader, [account])
        return list_late_usage(reader, Page(100), account_ids=[id_])[0]


def test_a_damaged_row_of_late_usage_fails_its_account_by_name(opened):
    with opened() as home:
        assert damage(home, "late_usage", "sources")
        result = bill(home.organization, SEPTEMBER)

    [failure] = result.failures
    assert failure.account_code == "acme"
    assert re.search(r"the row of LateUsage \S+, version 1, in State is damaged", failure.reason)


def test_a_row_of_a_kind_that_there_is_not_ends_the_run_by_name(opened):
    with opened() as home:
        assert damage(home, "entity", "kind")
        with pytest.raises(DamagedRow, match=r"the row of \{broken .* is damaged"):
            bill(home.organization, SEPTEMBER)


@pytest.mark.slow
@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(
    ("table", "column"),
    [("entity", "body"), ("posting", "amount")],
    ids=["entity.body", "posting.amount"],
)
def test_all_others_are_billed_with_any_runner(opened, monkeypatch, runner, table, column):
    monkeypatch.setattr(bucket_tasks, "_LEAST", 1)
    with opened(runner=runner, runner_workers=2) as home:
        assert damage(home, table, column)

        result = bill(home.organization, SEPTEMBER)

        assert {each.account_code for each in result.failures} <= {"acme"}
        assert "bolt" in {each.account_code for each in result.bills}
