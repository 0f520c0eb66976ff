"""What found bills come to: added up by the database, and exact whatever their digits."""

from decimal import Decimal

import pytest

from meterlake.model.resources.listing import Search
from meterlake.model.values.money import exact
from meterlake.stores.state import State
from meterlake.stores.state.billing.bills.lists import total_found
from tests.migrations import changing, insert

MADE = "2026-10-01T00:00:00.000000Z"
AUDIT = {"created": MADE, "created_by": "bob", "modified": MADE, "modified_by": "bob"}
TOTALS = {
    "EUR": ["0", "1", "-1.5", "12.34", "0.005", "-0.01", "1000000", "999999999999", "12.34"],
    "USD": ["123456789012345678901234567890.123456789", "0.1", "-9999999999.99", "9999999999.99"],
    "JPY": ["123456789012345678901234567890", "123456789012345678901234567890"],
}


@pytest.fixture
def state(empty_database):
    with State.at(empty_database) as found:
        number = 0
        with changing(empty_database) as connection:
            insert(connection, "organization", id="o", code="o", name="O", created=MADE)
            for currency, totals in TOTALS.items():
                for total in totals:
                    number += 1
                    bill = {"id": f"{number}", "org": "o", "account_id": f"{number}", "version": 1}
                    period = {"bill_date": "2026-10-01", "frequency": "MONTHLY", "interval": 1}
                    content = {"currency": currency, "total": total, "body": "{}", "pins": "{}"}
                    stands = {"status": ("PENDING", "APPROVED")[number % 2], "locked": number == 1}
                    insert(
                        connection,
                        "bill",
                        **{**bill, **period, **content, **stands, **AUDIT, "period": "2026-09"},
                    )
        yield found


def test_totals_of_all_digits_are_added_up_exactly(state):
    with state.reading("o") as reader:
        found = total_found(reader, Search((), True, None, False, 0, 10))

    with exact():
        expected = {currency: sum(map(Decimal, totals)) for currency, totals in TOTALS.items()}
    assert {each.currency: each.total for each in found} == expected
    assert [each.bills for each in found] == [len(TOTALS[each.currency]) for each in found]
    assert sum(each.locked for each in found) == 1
    assert all(each.pending + each.approved == each.bills for each in found)
