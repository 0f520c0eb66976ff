"""The sample priced anew: as it was without a difference, with another price by hand.

It has usage of one month, and charges in advance of two. A whole year is priced anew in
`test_flights.py`, with all flights of 2013.
"""

from decimal import ROUND_HALF_UP, Decimal

import pytest

from meterlake.model.resources.proposal import Document
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.what_if import WhatIfChoice, compare_history
from meterlake.pipeline.config.apply_configuration import export
from meterlake.pipeline.home.sample import create_sample
from meterlake.pipeline.ingest.drop import ingest_inbox
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.settings import Settings
from meterlake.stores import open_stores

pytestmark = pytest.mark.slow

MONTHS = (Month(2026, 9), Month(2026, 10))


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """A home that took in all files of the sample."""
    settings = Settings(home=tmp_path_factory.mktemp("sample") / "home", settle_seconds=0)
    code = create_sample(settings)
    with open_stores(settings) as stores:
        organization = stores.find_organization(code)
        assert sum(1 for _ in ingest_inbox(organization, drop_folder(stores, code))) > 5
        yield stores, organization.id


def priced_anew(sample, document):
    stores, org_id = sample
    choice = WhatIfChoice(*MONTHS, [Document("c", document)], by_month=True)
    with compare_history(stores.organization(org_id), choice) as found:
        return list(found.changes()), found.summary


def test_months_priced_anew_as_they_were_have_no_differences(sample):
    stores, org_id = sample
    whole = export(stores.state, org_id)
    renamed = {"products": [each | {"name": f"{each['name']}!"} for each in whole["products"]]}
    for document, changed in ((whole, 0), (renamed, len(whole["products"]))):
        changes, summary = priced_anew(sample, document)
        assert [each for each in changes if each.difference] == []
        assert (summary.changed, summary.left_out) == (changed, 0)
        assert {each.key.month for each in changes} >= {"2026-09", "2026-10"}
        assert len({each.key.account for each in changes}) > 20


def test_raised_standing_charges_raise_bills_in_proportion(sample):
    """Half as much again: each line by half of what it was, rounded as it is."""
    stores, org_id = sample
    whole = export(stores.state, org_id)
    raised = [
        each | {"standingCharge": Decimal(str(each["standingCharge"])) * Decimal("1.5")}
        for kind in ("plans",)
        for each in whole[kind]
        if each.get("standingCharge")
    ]
    changes, _ = priced_anew(sample, {"plans": raised})
    found = [each for each in changes if each.difference]
    assert {each.key.line_item_type for each in found} <= {
        *("STANDING_CHARGE", "COMMITMENT_CONSUMED", "BALANCE_CONSUMED"),
        *("OVERAGE_SURCHARGE", "USAGE_CREDIT"),
    }
    charges = [each for each in found if each.key.line_item_type == "STANDING_CHARGE"]
    assert len(charges) > 12
    for each in charges:
        half = (each.before * Decimal("0.5")).quantize(Decimal("0.01"), ROUND_HALF_UP)
        # A rounded line is within a cent of half of a rounded line.
        assert abs(each.difference - half) <= Decimal("0.01"), each
