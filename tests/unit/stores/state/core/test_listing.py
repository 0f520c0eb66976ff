"""Lists of accounts go along an index, however many accounts there are."""

import json

import pytest
from sqlalchemy import Engine, event, text

from meterlake.model.configuration.organization import Currency
from meterlake.model.customers.accounts import Account
from meterlake.model.resources import BY_ENTITY
from meterlake.model.resources.listing import Search, terms
from meterlake.stores.state.core import listing
from meterlake.stores.state.core.listing import list_entities
from meterlake.stores.state.core.pages import Page

NAMES = ("delta", "Alpha", "charlie", "alpha")


@pytest.fixture
def accounts(state, org):
    with state.transaction(org, "test") as transaction:
        for number, name in enumerate(NAMES):
            fields = {"code": f"a{number}", "emailAddress": f"{name}@b.example"}
            order = {"purchaseOrderNumber": name, "currency": f"C{number}"}
            currency = {"code": f"C{number}", "name": name, "maxDecimalPlaces": 2}
            transaction.create(Currency.from_wire(currency))
            transaction.create(Account.from_wire({"name": name, **fields, **order}))


TERMS = [
    ("name~AL", ["a1", "a3"]),
    ("name~al$code~A2", ["a1", "a2", "a3"]),
    ("code~a$purchaseOrderNumber~x", ["a0", "a1", "a2", "a3"]),
    ("name~%$code~_", []),
    ("name~\U0010ffff", []),
    ("name~charlie$currency:EUR", ["a2"]),
]


@pytest.mark.usefixtures("accounts")
@pytest.mark.parametrize("few", [0, 500])
@pytest.mark.parametrize(("query", "wanted"), TERMS)
def test_few_and_many_are_the_same_by_their_beginnings(state, org, monkeypatch, few, query, wanted):
    monkeypatch.setattr(listing, "_FEW", few)
    resource = BY_ENTITY[Account]
    asked = Search(terms(query, resource.listed_fields), False, "code", True, 0, 10)
    with state.reading(org) as reader:
        found, _ = list_entities(reader, resource, [], Page(10, search=asked))
        searched, _ = listing.search_entities(reader, resource, asked)

    assert [each.entity.code for each in found] == wanted
    assert [each.entity.code for each in searched] == wanted


def search(field, order):
    return Search((), True, field, order == "ASC", 0, 2)


@pytest.mark.usefixtures("accounts")
@pytest.mark.parametrize("order", ["ASC", "DESC"])
@pytest.mark.parametrize(
    ("field", "index"),
    [
        ("name", "entity_account_name"),
        ("emailAddress", "entity_account_email"),
        ("purchaseOrderNumber", "entity_account_order"),
        ("dtCreated", "entity_newest"),
        ("currency", "entity_account_currency"),
    ],
)
def test_a_page_in_an_order_is_a_part_of_an_index(state, org, field, order, index):
    asked = []

    def note(_, __, statement, parameters, *___):
        asked.append((statement, parameters))

    with state.reading(org) as reader:
        page = Page(2, search=search(field, order))
        first, token = list_entities(reader, BY_ENTITY[Account], [], page)
        event.listen(Engine, "before_cursor_execute", note)
        page = Page(2, token, search=search(field, order))
        rest, _ = list_entities(reader, BY_ENTITY[Account], [], page)
        event.remove(Engine, "before_cursor_execute", note)
        plan = plan_of(reader.connection, *asked[0])

    assert len({each.id for each in (*first, *rest)}) == len(NAMES)
    assert index in plan
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan


def plan_of(connection, statement, parameters):
    """How the database carries out a statement, of however many rows."""
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        return "\n".join(row[3] for row in rows)
    for each in ("seqscan", "bitmapscan", "sort"):
        connection.execute(text(f"SET LOCAL enable_{each} = off"))
    return json.dumps([*map(list, connection.exec_driver_sql(f"EXPLAIN {statement}", parameters))])
