"""What of a bill that was left as it was would be otherwise, in few words."""

import pytest

from meterlake.model.bills.unchanged_bill import describe_left, left_differences
from meterlake.model.values import wire

BILL = {"period": "2026-09", "currency": "USD", "total": "10", "body": '{"dueDate":"2026-10-31"}'}
LINES = [("usage/a", '{"description":"Egress","subtotal":10,"units":5}')]


def differences(changed, lines=LINES, *, draws=False):
    return left_differences(BILL, BILL | changed, (LINES, lines), draws=draws)


@pytest.mark.parametrize(
    ("changed", "lines", "told"),
    [
        (
            {"body": '{"dueDate":"2026-10-15"}'},
            LINES,
            "due date 2026-10-31, would be 2026-10-15",
        ),
        ({"body": "{}"}, LINES, "due date 2026-10-31, would be nothing"),
        (
            {},
            [("usage/a", '{"description":"Egress","subtotal":10,"units":6}')],
            "line Egress units 5, would be 6",
        ),
        ({}, [], "line Egress would be gone"),
        ({}, [*LINES, ("fee", "{}")], "line fee would be new"),
    ],
)
def test_a_difference_names_the_member_and_both_values(changed, lines, told):
    assert describe_left(differences(changed, lines), has_totals=False) == told


def test_two_totals_stand_beside_the_members_of_the_bill_alone():
    found = differences({"total": "11", "body": '{"dueDate":null}'}, [])

    assert describe_left(found, has_totals=True) == "due date 2026-10-31, would be nothing"
    assert [each.to_wire()["member"] for each in found] == ["dueDate", "total", ""]


def test_what_is_drawn_is_said_where_nothing_else_differs():
    found = differences({}, draws=True)

    assert describe_left(found, has_totals=False) == "what it draws from commitments and balances"


def test_the_first_three_are_told_and_the_others_counted():
    body = wire.dumps_sorted({f"a{number}": number for number in range(30)})
    found = differences({"body": body})

    assert len(found) == 20
    assert describe_left(found, has_totals=False).endswith("; and 17 more")
