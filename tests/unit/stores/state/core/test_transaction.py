from datetime import timedelta
from decimal import Decimal

import pytest

from meterlake.model.catalog.catalog import Meter, Product
from meterlake.model.configuration.organization import Currency, OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import (
    Conflict,
    DuplicateCode,
    Invalid,
    NotFound,
    StaleVersion,
    StillReferenced,
)
from meterlake.model.values.ids import derived_id
from tests.organizations import new_organization

NOBODY = derived_id("nobody")


def account(code="acme", **fields):
    return Account(code=code, name=code, email_address="a@b.example", **fields)


def product(code="cloud"):
    return Product(code=code, name=code)


def meter(product_id, code="egress"):
    field = {"category": "MEASURE", "code": "gb", "name": "GB"}
    return Meter.from_wire(
        {
            "code": code,
            "name": code,
            "productId": product_id,
            "dataFields": [field],
            "derivedFields": [],
        }
    )


@pytest.fixture
def write(state, org):
    """Write in a transaction of its own."""

    def writer(verb, *arguments):
        with state.transaction(org, "USER_1") as transaction:
            return getattr(transaction, verb)(*arguments)

    return writer


@pytest.fixture
def read(state, org):
    """Read in a transaction of its own."""

    def reader(verb, *arguments):
        with state.reading(org) as opened:
            return getattr(opened, verb)(*arguments)

    return reader


def test_what_is_created_is_found_by_id_by_code_and_in_the_list(write, read):
    made = write("create", account(custom_fields={"size": Decimal("0.10"), "kind": "ship"}))

    assert made.version == 1
    assert made.created_by == made.modified_by == "USER_1"
    assert read("get", Account, made.id) == made
    assert read("find", Account, "acme") == made
    assert read("all", Account) == [made]
    assert read("find", Account, "bolt") is None


def test_an_update_replaces_all_fields_and_counts_the_version(write, read, clock):
    made = write("create", account(purchase_order_number="PO-1"))
    clock.advance(hours=1)

    updated = write("update", made.id, 1, account("bolt"))

    assert read("get", Account, made.id) == updated
    assert (updated.version, updated.entity.purchase_order_number) == (2, None)
    assert (updated.created, updated.modified) == (made.created, clock())
    assert read("find", Account, "acme") is None


@pytest.mark.parametrize("version", [0, 2])
def test_an_update_of_another_version_is_refused(write, read, version):
    made = write("create", account())

    with pytest.raises(StaleVersion, match=f"is at version 1, not {version}"):
        write("update", made.id, version, account("bolt"))

    assert read("get", Account, made.id) == made


def test_an_update_of_nothing_is_refused(write):
    with pytest.raises(NotFound):
        write("update", NOBODY, 1, account())


def test_a_code_belongs_to_one_entity_of_its_kind(write):
    made = write("create", account())
    other = write("create", account("bolt"))
    write("create", product("acme"))

    with pytest.raises(DuplicateCode, match=made.id):
        write("create", account())
    with pytest.raises(DuplicateCode):
        write("update", other.id, 1, account("acme"))
    write("update", made.id, 1, account("acme", days_before_bill_due=3))


def test_codes_differ_by_the_case_of_their_letters(write):
    write("create", account("acme"))
    write("create", account("ACME"))


def test_entities_without_a_code_do_not_get_in_each_others_way(write, read):
    write("create", Currency(name="one"))
    write("create", Currency(name="two"))

    assert {record.entity.name for record in read("all", Currency)} == {"US dollar", "one", "two"}


def test_there_is_one_of_a_singleton(write):
    with pytest.raises(Conflict, match="only one"):
        write("create", OrganizationConfig(days_before_bill_due=1))


def test_an_id_that_is_taken_is_refused(write):
    write("create", account(), NOBODY)

    with pytest.raises(Conflict, match=NOBODY):
        write("create", account("bolt"), NOBODY)


def test_what_an_entity_refers_to_must_exist_at_the_end(state, org, write, read):
    with pytest.raises(
        Invalid,
        match=f"productId: '{NOBODY}' is not allowed: it must be the id of an existing Product",
    ):
        write("create", meter(NOBODY))
    assert read("all", Meter) == []

    with state.transaction(org, "USER_1") as transaction:
        transaction.create(meter(NOBODY))
        transaction.create(product(), NOBODY)


def test_what_an_entity_names_by_code_must_exist_at_the_end(write):
    with pytest.raises(
        Invalid, match="currency: 'EUR' is not allowed: it must be the code of an existing Currency"
    ):
        write("create", account(currency="EUR"))

    write("create", account(currency="USD"))


def test_what_is_referred_to_is_not_deleted(write, read):
    owner = write("create", product())
    child = write("create", meter(owner.id))
    write("create", account(currency="USD"))

    with pytest.raises(
        StillReferenced, match=r"Product '.*' is still referenced by Meter 'egress'"
    ):
        write("delete", Product, owner.id)
    with pytest.raises(StillReferenced, match=r"by Account 'acme'|by OrganizationConfig"):
        write("delete", Currency, read("find", Currency, "USD").id)

    assert write("delete", Meter, child.id) == child
    assert write("delete", Product, owner.id) == owner
    with pytest.raises(NotFound):
        read("get", Product, owner.id)


def test_a_reference_that_was_changed_holds_nothing_any_more(write):
    first, second = write("create", product("first")), write("create", product("second"))
    child = write("create", meter(first.id))
    write("update", child.id, 1, meter(second.id))

    write("delete", Product, first.id)
    with pytest.raises(StillReferenced):
        write("delete", Product, second.id)


def test_what_refers_only_to_itself_is_deleted(write):
    write("create", account(parent_account_id=NOBODY), NOBODY)

    write("delete", Account, NOBODY)


def test_deleting_what_something_of_the_same_transaction_refers_to_is_refused(state, org):
    with state.transaction(org, "USER_1") as transaction:
        owner = transaction.create(product())
        transaction.create(meter(owner.id))

        with pytest.raises(StillReferenced):
            transaction.delete(Product, owner.id)


def test_all_of_a_transaction_is_kept_or_nothing(state, org, read):
    with pytest.raises(StaleVersion), state.transaction(org, "USER_1") as transaction:
        transaction.update(transaction.create(account()).id, 7, account("bolt"))

    assert read("all", Account) == []


def test_the_history_has_every_version_and_the_deletion(write, read, clock):
    created = clock()
    made = write("create", account())
    updated = clock.advance(days=1)
    write("update", made.id, 1, account("bolt"))
    deleted = clock.advance(days=1)
    write("delete", Account, made.id)

    rows = [
        (p.version, p.valid_from, p.valid_to, p.entity.code if p.entity else None, p.author)
        for p in read("history", Account, made.id)
    ]

    assert rows == [
        (1, created, updated, "acme", "USER_1"),
        (2, updated, deleted, "bolt", "USER_1"),
        (3, deleted, None, None, "USER_1"),
    ]


def test_a_refused_write_leaves_no_history(write, read):
    made = write("create", account())

    with pytest.raises(StaleVersion):
        write("update", made.id, 5, account("bolt"))

    assert len(read("history", Account, made.id)) == 1


def test_the_configuration_is_read_as_it_was(state, org, write, clock):
    created = clock()
    made = write("create", account())
    updated = clock.advance(days=1)
    changed = write("update", made.id, 1, account("bolt"))
    deleted = clock.advance(days=1)
    write("delete", Account, made.id)
    moment = timedelta(microseconds=1)

    def at(instant):
        return list(state.configuration(org, instant).all(Account))

    assert at(created - moment) == []
    assert at(created) == at(updated - moment) == [made]
    assert at(updated) == at(deleted - moment) == [changed]
    assert at(deleted) == list(state.configuration(org).all(Account)) == []


def test_history_does_not_run_backwards_when_the_clock_does(write, read, clock):
    made = write("create", account())
    clock.advance(days=-1)

    updated = write("update", made.id, 1, account("bolt"))

    assert updated.modified == made.modified
    assert [past.valid_from for past in read("history", Account, made.id)] == [made.created] * 2


def test_an_entity_that_comes_back_goes_on_where_its_history_stopped(write, read):
    write("create", account(), NOBODY)
    write("delete", Account, NOBODY)

    assert write("create", account(), NOBODY).version == 3
    assert [past.version for past in read("history", Account, NOBODY)] == [1, 2, 3]


def test_every_text_comes_back_as_it_was(write, read):
    name = "Zürich 'quoted\" \\ \u2028 \U0001f600 \x01"
    made = write("create", Account(code="ü ß", name=name, email_address="ü@b.example"))

    assert read("get", Account, made.id).entity.name == name


def test_organizations_do_not_see_each_other(state, write):
    made = write("create", account())
    write("create", account("child", parent_account_id=made.id))
    other = new_organization(state, "other")

    with state.transaction(other, "USER_2") as transaction:
        assert transaction.all(Account) == []
        with pytest.raises(NotFound):
            transaction.update(made.id, 1, account())
        transaction.create(account("acme"))
    with pytest.raises(Invalid), state.transaction(other, "USER_2") as transaction:
        transaction.create(account("child", parent_account_id=made.id))
