"""The clock of scheduled billing: instants by the wall clock of the organization."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.bills.billing_dates import approves_itself, last_due
from meterlake.model.configuration.organization import BILL_INTERVALS, OrganizationConfig

BERLIN = "Europe/Berlin"


def config(**fields):
    return OrganizationConfig.from_wire({"daysBeforeBillDue": 14, **fields})


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("interval", "offset", "now", "due"),
    [
        (1, None, "2026-07-01T10:59:59", "2026-07-01T10:00:00"),
        (1, None, "2026-07-01T11:00:00", "2026-07-01T11:00:00"),
        (Decimal("0.25"), None, "2026-07-01T10:50:00", "2026-07-01T10:45:00"),
        (6, None, "2026-07-01T09:59:00", "2026-07-01T04:00:00"),  # 06:00 in Berlin
        (12, None, "2026-06-30T22:00:00", "2026-06-30T22:00:00"),  # midnight in Berlin
        (24, None, "2026-07-01T21:00:00", "2026-06-30T22:00:00"),
        (24, 5, "2026-07-01T02:59:59", "2026-06-30T03:00:00"),
        (24, 5, "2026-07-01T03:00:00", "2026-07-01T03:00:00"),
        (24, 5, "2026-12-01T04:00:00", "2026-12-01T04:00:00"),  # winter
        (24, 2, "2026-03-29T10:00:00", "2026-03-29T01:00:00"),  # there is no 02:00
        (1, None, "2026-10-25T01:10:00", "2026-10-25T01:00:00"),  # 02:00 comes twice
        (1, None, "2026-10-25T00:10:00", "2026-10-25T00:00:00"),
    ],
)
def test_bills_are_due_by_the_clock_on_the_wall(interval, offset, now, due):
    fields = {"scheduledBillInterval": interval, "timezone": BERLIN}
    if offset is not None:
        fields["scheduledBillOffset"] = offset

    assert last_due(config(**fields), at(now)) == at(due)


def test_without_an_interval_nothing_is_due():
    assert last_due(config(scheduledBillInterval=0), at("2026-07-01T10:00:00")) is None


NOWS = st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1)).map(lambda x: x.replace(tzinfo=UTC))
ZONES = st.sampled_from(
    [BERLIN, "UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Apia", "+5:30"]
)


@given(now=NOWS, zone=ZONES, hours=st.sampled_from(BILL_INTERVALS[1:]))
def test_the_newest_instant_is_never_later_nor_further_away_than_the_interval(now, zone, hours):
    settings = config(scheduledBillInterval=hours, timezone=zone)
    due = last_due(settings, now)

    # Where clocks change, or a whole day is left out, it may take longer by as much.
    assert timedelta(0) <= now - due < timedelta(hours=float(hours)) + timedelta(hours=24)
    assert last_due(settings, due) == due


@pytest.mark.parametrize(
    ("now", "expected"),
    [("2026-09-30T23:59:59", False), ("2026-10-01T00:00:00", True), ("2026-10-05T00:00:00", True)],
)
def test_a_bill_approves_itself_so_long_after_its_date_begins(now, expected):
    fields = {"autoApproveBillsGracePeriod": 2, "autoApproveBillsGracePeriodUnit": "HOURS"}
    settings = config(timezone=BERLIN, **fields)

    # 1 October begins in Berlin at 22:00 UTC.
    assert approves_itself(settings, date(2026, 10, 1), at(now)) is expected
    assert not approves_itself(config(timezone=BERLIN), date(2026, 10, 1), at(now))
