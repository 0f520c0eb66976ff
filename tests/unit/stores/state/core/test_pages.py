import base64

import pytest

from meterlake.model.configuration.access import ServiceUser
from meterlake.model.errors import Invalid
from meterlake.stores.state.access import access
from meterlake.stores.state.core.pages import Page


@pytest.fixture
def robot(state, org):
    with state.transaction(org, "test") as transaction:
        return transaction.create(ServiceUser(name="robot")).id


def add(state, org, robot, count):
    with state.transaction(org, "test") as transaction:
        return [access.add_key(transaction, robot, str(n)).id for n in range(count)]


def test_pages_show_everything_once_the_newest_first(state, org, robot, clock):
    older = add(state, org, robot, 3)
    clock.advance(seconds=1)
    newer = add(state, org, robot, 2)
    found, token = [], None
    with state.reading(org) as reader:
        while True:
            page, token = access.keys(reader, robot, Page(2, token))
            found += [key.id for key in page]
            if token is None:
                break

    assert found == sorted(newer, reverse=True) + sorted(older, reverse=True)


def test_what_is_added_meanwhile_moves_nothing(state, org, robot, clock):
    first = add(state, org, robot, 4)
    with state.reading(org) as reader:
        page, token = access.keys(reader, robot, Page(2))
    clock.advance(seconds=1)
    add(state, org, robot, 3)
    with state.reading(org) as reader:
        rest, end = access.keys(reader, robot, Page(2, token))

    assert sorted(key.id for key in (*page, *rest)) == sorted(first)
    assert end is None


@pytest.mark.parametrize(
    "token",
    ["x", "é", "====", "\ud800"]
    + [
        base64.urlsafe_b64encode(text).decode()
        for text in (b"2026-10-01 a", b"2026-10-01T00:00:00 a", b"\xff", b"never a")
    ]
    + [base64.urlsafe_b64encode(b"2026-10-01T00:00:00+00:00 \x00").decode()],
)
def test_a_token_that_no_list_gave_is_refused(state, org, robot, token):
    with state.reading(org) as reader, pytest.raises(Invalid, match="nextToken"):
        access.keys(reader, robot, Page(2, token))
