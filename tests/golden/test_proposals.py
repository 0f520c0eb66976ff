"""Proposed prices without Python: each file of `proposals/` has a change, its effect, and what holds then."""

import tomllib
from decimal import Decimal
from pathlib import Path

import pytest

from meterlake.model.catalog.plans import PriceScale, Pricing
from meterlake.model.values.money import plain
from meterlake.model.values.problems import read
from meterlake.pipeline.billing.what_if.price_change import proposal_effect
from meterlake.pipeline.config.change_proposals import (
    ChangeOrder,
    apply_proposal,
    approve_proposal,
    propose_change_set,
    show_proposal,
)
from meterlake.pipeline.config.scale_prices import propose_prices
from tests.bills import a_home_to_bill

CASES = sorted(Path(__file__).parent.glob("proposals/*.toml"))


def shown_bands(proposal):
    [price] = proposal["prices"]
    return [
        {
            "above": plain(Decimal(each["lowerLimit"])),
            **{side: plain(Decimal(each["unitPrice"][side])) for side in ("old", "new")},
        }
        for each in price["bands"]
    ]


def amounts(row, *names):
    sides = {side: plain(row[side]) for side in ("before", "after")}
    return {**{name: row[name] for name in names}, **sides}


def held_prices(organization):
    found = [each.entity for each in organization.configuration().all(Pricing)]
    for each in sorted(found, key=lambda price: price.start_date):
        end = {} if each.end_date is None else {"to": str(each.end_date.date())}
        bands = [plain(band.unit_price) for band in each.pricing_bands]
        yield {"from": str(each.start_date.date()), **end, "prices": bands}


@pytest.mark.parametrize("case", CASES, ids=[each.stem for each in CASES])
def test_a_proposal_comes_to_what_its_file_says(case, tmp_path):
    wanted = tomllib.loads(case.read_text("utf-8"), parse_float=Decimal)
    with a_home_to_bill(tmp_path) as home:
        documents = propose_prices(home.organization, read(PriceScale, wanted["scale"])).documents()
        order = ChangeOrder("Prices", "Energy", documents)
        made = propose_change_set(home.organization, "ann", order)
        effect = proposal_effect(home.organization, made["id"])

        assert shown_bands(show_proposal(home.organization, made["id"])) == wanted["bands"]
        assert [amounts(each, "month") for each in effect["byMonth"]] == wanted["months"]
        assert [amounts(each, "account") for each in effect["byCustomer"]] == wanted["customers"]
        approve_proposal(home.organization, "bob", made["id"])
        apply_proposal(home.organization, "bob", made["id"])
        assert list(held_prices(home.organization)) == wanted["held"]
