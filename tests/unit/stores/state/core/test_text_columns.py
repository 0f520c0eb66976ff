"""Every text column of State: whose words it holds, and what becomes of words that are no text."""

import importlib
import pkgutil
import random
import string
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from sqlalchemy import Column, Connection, String, Table, TypeDecorator, insert, select, text

import meterlake.stores.state as package
from meterlake.model.values.untrusted import UNTRUSTED_MAX
from meterlake.stores.state.core.tables import (
    METADATA,
    DayText,
    InstantText,
    StorableText,
    Unstorable,
    UntrustedText,
)

for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
    if "migrations" not in module.name:
        importlib.import_module(module.name)

# Text that we make or choose ourselves: ids, kinds, states, digests, amounts, and who did it. All
# other columns of text are `UntrustedText` or `StorableText`; a new one is either, or is listed.
OURS: Final = {
    "access_key": "id org service_user_id secret_sha256 status",
    "act": "id org kind subject_id action author",
    "backfill": "org id status author",
    "balance_note": "id org paid currency_paid transaction_type_id entity_type",
    "balance_settlement": "balance_id org",
    "bill": "id org account_id frequency grouping_key status total approved_by locked_by job_id"
    " outdated_by inputs calculation_id created_by modified_by",
    "bill_calculation": "id org code digest created_by",
    "bill_line": "bill_id",
    "bill_memo": "id org bill_id kind reason_id created_by modified_by",
    "bill_statement": "bill_id format org job_id sha256",
    "bill_version": "bill_id org account_id frequency grouping_key total calculation_id created_by"
    " modified_by replaced_by",
    "bill_version_line": "bill_id",
    "change_proposal": "org id status",
    "change_proposal_act": "org proposal_id status author",
    "destination_health": "org destination_id",
    "entity": "org kind id created_by modified_by",
    "entity_history": "org kind id author created_by digest",
    "entity_reference": "org kind id target_kind",
    "event": "id org kind account_id category base_id",
    "event_notification": "notification_id event_id",
    "event_position": "org reader",
    "idempotency_key": "id org request_sha256 answer",
    "inbox": "id org afterwards",
    "inbox_claim": "id inbox",
    "incident": "org name event_id",
    "integration_run": "id org status config_id entity_type destination_id account_id event_id"
    " parent_id replayed_from action",
    "integration_try": "run_id",
    "invoice_sequence": "org",
    "job": "id org kind status author schedule_id flow_run",
    "lake_file": "org sha256",
    "lake_watch": "org mark",
    "late_usage": "id org bill_id account_id frequency grouping_key status",
    "late_usage_line": "late_usage_id line_id amount memo_bill_id memo_id memo_amount taken_back",
    "ledger_report": "org",
    "lookup_item": "org revision_id",
    "lookup_job": "id revision_id destination_id type",
    "marketplace_bill": "org bill_id account_id",
    "marketplace_record": "org system account_id bill_id",
    "membership": "org person_id created_by modified_by",
    "one_time_token": "token_sha256 purpose org subject_id created_by",
    "organization": "id",
    "person": "id password_hash",
    "policy_grant": "org policy_id principal_type principal_id id created_by",
    "posting": "id org amount kind source_id bill_id job_id reverses created_by digest",
    "refused_credentials": "org destination_id",
    "resource_group_member": "org group_id target_id target_type id created_by",
    "scheduled_charge": "charge_id org schedule_id",
    "scheduled_moment": "org config_id entity_id",
    "scheduled_scan": "org config_id last_id",
    "session": "id token_sha256 person_id",
    "session_grant": "token_sha256 kind session_id org",
    "signing_key": "kid private_key",
    "statement_job": "id org bill_id",
    "unbilled_usage": "org month account_id",
    "upload": "id sha256",
}
TEXTS: Final = [
    column
    for table in METADATA.sorted_tables
    for column in table.columns
    if isinstance(column.type, String | TypeDecorator)
    and not isinstance(column.type, InstantText | DayText)
]
_INSTANT: Final = datetime(2026, 10, 1, tzinfo=UTC)
STRANGERS: Final = [
    column for column in TEXTS if isinstance(column.type, UntrustedText | StorableText)
]


def test_every_column_of_text_says_whose_words_it_holds() -> None:
    """A new one fails here until it is one or the other."""
    ours = [f"{table}.{name}" for table, names in OURS.items() for name in names.split()]
    theirs = [str(each) for each in STRANGERS]

    assert sorted([*ours, *theirs]) == sorted(str(each) for each in TEXTS)
    assert len({*ours, *theirs}) == len(ours) + len(theirs)


# No database makes it any smaller.
_RANDOM: Final = random.Random(7)
BLOCK: Final = "".join(_RANDOM.choices(string.ascii_letters + string.digits, k=100_000))
WORDS: Final = {
    "nul": "a\0b",
    "half": "a\ud800b",
    "other half": "\udfffb",
    "half in text": "é\udc80",
    "100 kB": BLOCK,
    "10 MB": BLOCK * 105,
}


@pytest.fixture
def connection(state) -> Iterator[Connection]:
    """A transaction in which rows need not refer to others, and of which nothing is kept."""
    with state.writing_home() as opened:
        is_file = opened.dialect.name == "sqlite"
        opened.execute(
            text(
                "PRAGMA defer_foreign_keys = ON"
                if is_file
                else "SET LOCAL session_replication_role = replica"
            )
        )
        yield opened
        opened.rollback()


def a_row(table: Table) -> dict[str, Any]:
    """A row of a table with a value of its type in each column that needs one."""
    return {each.name: _value(each) for each in table.columns if not each.nullable}


def _value(column: Column[Any]) -> Any:
    kind = column.type
    if isinstance(kind, InstantText | DayText):
        kind = kind.impl_instance
        return _INSTANT if kind.length > len("2026-10-01") else _INSTANT.date()
    return "a" if isinstance(kind, String | TypeDecorator) else kind.python_type(1)


def becomes(connection: Connection, column: Column[Any], word: str) -> str | Unstorable:
    """What is kept of a word, or why nothing is."""
    savepoint = connection.begin_nested()
    try:
        connection.execute(insert(column.table).values(a_row(column.table) | {column.name: word}))
        return str(connection.execute(select(column)).scalar_one())
    except Unstorable as error:
        return error
    finally:
        savepoint.rollback()


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=pytest.mark.slow if each == "10 MB" else ()) for each in WORDS],
)
def test_words_of_strangers_are_kept_cleaned_or_refused(connection: Connection, name: str) -> None:
    """Never the error of a database, and the same of both."""
    word = WORDS[name]
    for column in STRANGERS:
        found = becomes(connection, column, word)
        if isinstance(column.type, UntrustedText):
            expected = word[:UNTRUSTED_MAX]
            for each in "\0\ud800\udfff\udc80":
                expected = expected.replace(each, "\ufffd")
            assert found == expected, column
        elif "kB" in name or "MB" in name:
            bound = column.type.at_most
            assert isinstance(found, Unstorable) if bound else found == word, column
            assert not bound or f"at most {bound} characters" in str(found), column
        else:
            assert "text without NUL characters and lone surrogates" in str(found), column
            assert isinstance(found, Unstorable), column


def test_what_is_only_looked_for_may_be_longer_than_its_column(connection: Connection) -> None:
    for column in STRANGERS:
        assert connection.execute(select(column).where(column == "x" * 5_000)).first() is None
