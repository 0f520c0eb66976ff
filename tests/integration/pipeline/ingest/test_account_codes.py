"""Account codes are kept from one source to the next, and never stale."""

from meterlake.model.customers.accounts import Account
from meterlake.pipeline.ingest.derivations import account_codes
from meterlake.stores.state.core.auto_accounts import create_auto_accounts

ADDRESS = "a@example.com"


def known(state, org):
    return sorted(account_codes(state, org).known)


def test_codes_are_read_again_only_after_a_change(state, org):
    create_auto_accounts(state, org, {"acme": "id-1"})
    first = account_codes(state, org)

    assert account_codes(state, org) is first
    create_auto_accounts(state, org, {"bolt": "id-2"})
    assert account_codes(state, org) is not first
    assert known(state, org) == ["acme", "bolt"]


def test_a_change_is_seen_whatever_the_clock_says(state, org, clock):
    create_auto_accounts(state, org, {"acme": "id-1"})
    assert known(state, org) == ["acme"]
    clock.advance(hours=-3)
    with state.transaction(org, "test") as transaction:
        renamed = Account(name="Acme", code="acme corp", email_address=ADDRESS)
        transaction.update("id-1", 1, renamed)
    assert known(state, org) == ["acme corp"]
    with state.transaction(org, "test") as transaction:
        transaction.delete(Account, "id-1")
        transaction.create(Account(name="Bolt", code="bolt", email_address=ADDRESS))

    assert known(state, org) == ["bolt"]
