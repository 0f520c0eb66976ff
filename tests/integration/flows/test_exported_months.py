"""Which months an export is an asset of, in every time zone."""

from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo

from hypothesis import given
from hypothesis import strategies as st

from flows.exported import months_of

ZONES = st.integers(-12, 14).map(lambda hours: timezone(timedelta(hours=hours)))


@given(st.dates(date(2025, 1, 1), date(2027, 12, 31)), st.integers(1, 800), ZONES)
def test_an_export_is_of_the_months_of_its_days(first: date, days: int, zone: tzinfo) -> None:
    after = first + timedelta(days=days)
    start, end = (datetime.combine(day, time(), zone).astimezone(UTC) for day in (first, after))

    found = months_of(start, end.isoformat())

    assert found == sorted({f"{first + timedelta(days=n):%Y-%m}" for n in range(days)})
