"""What the calculation of a notification says of an event."""

from decimal import Decimal

import pytest

from meterlake.model.calculation import CalculationError
from meterlake.stages.events.match import evaluate_text

SAMPLE = (
    "(new.amountSpent >= ((new.amount*90)/100)) AND"
    " ((old.amountSpent <= ((old.amount*90)/100)) OR (old.amountSpent == null))"
)
EVENT = {
    "newDto": {
        "amount": 1000,
        "amountSpent": Decimal("900.000000000001"),
        "status": "APPROVED",
        "locked": True,
        "endDate": "2026-10-01",
        "endDateTimeUTC": "2026-10-01T00:00:00Z",
        "dtApproved": "2026-10-01T02:00:00.5+02:00",
        "number": "INV-10",
        "lines": [],
        "fields": {"a": 1},
        "nothing": None,
    },
    "oldDto": {"amount": 1000, "endDate": "2026-09-01"},
}


@pytest.mark.parametrize(
    ("new", "old", "fires"),
    [
        ("899.999999999999", "0", False),
        ("900", "0", True),
        ("900", "899.999999999999", True),
        ("900", "900", True),  # `<=` as documented: an update exactly at the limit fires again.
        ("950", "900.000000000001", False),
        ("950", None, True),
        ("899", None, False),
        (None, None, False),
    ],
)
def test_the_documented_sample_fires_where_90_percent_are_crossed(new, old, fires):
    sides = {"newDto": new, "oldDto": old}
    event = {
        side: {"amount": 1000, "amountSpent": None if spent is None else Decimal(spent)}
        for side, spent in sides.items()
    }

    assert evaluate_text(SAMPLE, event) is fires


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # Only a null that stands there asks whether there is a value.
        ("old.amountSpent == null", True),
        ("null == new.nothing", True),
        ("new.amount != null", True),
        ("new.unknown == null", True),
        ("(old.amountSpent + 1) == null", True),
        ("old.amountSpent != 5", False),
        ("old.amountSpent == 5", False),
        ("old.amountSpent < 5", False),
        ("old.amountSpent == new.nothing", False),
        ("old.amountSpent != new.nothing", False),
        ("old.amountSpent / 0 > 1", False),
        ("isnull(old.amountSpent, 0) < new.amountSpent", True),
        ("IN(new.nothing, 1, null)", True),
        ("IN(new.nothing, 1, 2)", False),
        ('IN(new.status, "PENDING", "APPROVED")', True),
        # Two values of truth.
        ("new.nothing OR new.locked", True),
        ("new.nothing AND new.locked", False),
        ("new.nothing ? true : new.locked", True),
        ("old.locked", False),
        ("new.locked == true", True),
        ("(new.amount > 1) == new.locked", True),
        # An operand that no longer decides is not computed.
        ("new.locked OR 1 / 0 > 1", True),
        ("old.locked AND 1 / 0 > 1", False),
        # Texts and dates.
        ('new.status == "APPROVED"', True),
        ('new.status != "APPROVED"', False),
        ('new.number < "INV-9"', False),
        ('new.number > "INV-9"', False),
        ('new.number < "2026-10-01"', False),
        ("new.endDate > old.endDate", True),
        ("new.endDate == new.endDateTimeUTC", True),
        ("new.endDate < new.dtApproved", True),
        ('new.endDate >= "2026-10-01T00:00:00.000001Z"', False),
        ("differenceInSeconds(toInstant(old.endDate), toInstant(new.endDate)) == 86400*30", True),
        # Exact.
        ("new.amountSpent > 900", True),
        ("new.amountSpent - 900 == 0.000000000001", True),
        ("new.amount / 3 * 3 < new.amount + 1", True),
        # What is there.
        ("new.lines != null AND new.fields != null", True),
        ("old.lines == null", True),
    ],
)
def test_a_condition_is_true_or_false(text, answer):
    assert evaluate_text(text, EVENT) is answer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("new.amount / 0 > 1", "division by zero"),
        ("new.amount / (new.amount - 1000) > 1", "division by zero"),
        ("toNumber(new.status) > 1", "no number"),
        ("toInstant(new.status) == null", "no instant"),
        ("new.status > 1", "cannot be compared"),
        ("new.lines == new.lines", "cannot be compared"),
        ("new.locked > false", "does not compare"),
        ("new.amount + new.lines > 1", "does not take"),
        ("-new.status > 1", "needs number"),
        ("new.amount AND new.locked", "needs boolean"),
        ("new.amount ^ 64 * new.amount ^ 64 > 1", "digits"),
        ('lookup("t", "f", 1) == 1', "lookup"),
    ],
)
def test_a_condition_without_an_answer_says_why(text, message):
    with pytest.raises(CalculationError, match=message):
        evaluate_text(text, EVENT)
