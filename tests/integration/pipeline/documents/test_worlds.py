"""Random organizations: the sums of every document agree, and the page has every line of its bill."""

from decimal import Decimal

import pytest

from meterlake.model.bills.document import DocumentFormat
from meterlake.model.calendar.recurrence import DayRange
from meterlake.pipeline.documents.content import read_document, read_documents
from meterlake.pipeline.documents.render import RenderOptions, render_document
from meterlake.stores.state.billing.bills import bills
from tests.billing_oracle.worlds import random_world
from tests.document_world import text_of
from tests.stored_worlds import MONTHS, store_world

ALWAYS = DayRange(MONTHS[0].first, MONTHS[-1].after)


def check_world(seed, folder):
    """Every bill has a document; of the one with most lines, all lines are in the PDF."""
    with store_world(random_world(seed), folder) as world:
        world.bill_on_time(ALWAYS)
        with world.organization.reading() as reader:
            stored = [each for month in MONTHS for each in bills.of_period(reader, str(month))]
        found = read_documents(world.organization, [each.id for each in stored])
        assert found[0] == read_document(world.organization, stored[0].id)
    for bill, document in zip(stored, found, strict=True):
        lines = [each for section in document["sections"] for each in section["lines"]]
        amounts = {each["number"]: Decimal(each["amount"]) for each in lines}
        assert amounts == {
            number: Decimal(each.body["convertedSubtotal"])
            for number, each in enumerate(bill.content.lines, start=1)
        }
        assert sum(amounts.values()) == Decimal(document["totals"]["total"]) == bill.content.total
    longest = max(found, key=lambda each: sum(len(one["lines"]) for one in each["sections"]))
    text = text_of(render_document(longest, DocumentFormat.PDF, RenderOptions()))
    for section in longest["sections"]:
        for each in section["lines"]:
            assert f"{each['number']}{each['description']}".replace(" ", "") in text
    return len(found)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(3))
def test_bills_of_random_worlds_have_documents(tmp_path, chunk):
    count = 0
    for seed in range(chunk * 4, chunk * 4 + 4):
        (tmp_path / str(seed)).mkdir()
        count += check_world(seed, tmp_path / str(seed))
    assert count > 40
