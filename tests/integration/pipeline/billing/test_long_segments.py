"""Segments of long texts: their lines are stored on every database, and found again."""

import random

import pytest

from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.stores.state.billing.bills import bills
from tests.bills import price_egress, subscribe
from tests.homes import HEADER, a_home, configure, csv_row

pytestmark = pytest.mark.usefixtures("home_database")

_RANDOM = random.Random(7)
BEGINNING = "".join(chr(_RANDOM.randrange(0x4E00, 0x9FFF)) for _ in range(1_000))
SEGMENTS = [{"region": BEGINNING + each} for each in ("eu", "us")]


@pytest.mark.long
def test_lines_of_segments_longer_than_an_index_takes_are_billed(tmp_path):
    """PostgreSQL has no index of more than 2,704 bytes, and a text of a row has 1,024 characters."""
    with a_home(tmp_path) as home:
        segmented = {"segmentedFields": ["region"], "segments": SEGMENTS}
        price_egress(home, aggregation=segmented)
        configure(
            home.organization,
            pricings=[
                {
                    "code": f"sent-{number}",
                    "planId": "basic",
                    "aggregationId": "sent",
                    "segment": segment,
                    "startDate": "2026-01-01T00:00:00Z",
                    "cumulative": True,
                    "pricingBands": [{"lowerLimit": 0, "fixedPrice": number, "unitPrice": 1}],
                }
                for number, segment in enumerate(SEGMENTS, 1)
            ],
        )
        subscribe(home, "acme")
        home.ingest(
            "a.csv",
            HEADER
            + "".join(
                csv_row(str(number), number, **segment)
                for number, segment in enumerate(SEGMENTS, 1)
            ),
        )
        made, again = (bill(home.organization, Month(2026, 9)) for _ in range(2))

        [billed] = made.bills
        with home.organization.reading() as reader:
            found = bills.get(reader, billed.bill_id).content.lines
    lines = [each for each in found if each.body.get("segment")]
    assert [each.body["segment"] for each in lines] == SEGMENTS
    assert len({each.key for each in lines}) == len(SEGMENTS)
    assert all(len(each.key.encode()) <= 2_600 for each in lines)
    assert [each.stored for each in again.bills] == ["unchanged"]
