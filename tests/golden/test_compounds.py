"""Compound aggregations without Python: each file of `compounds/` is an organization and its usage.

Every quantity and every failure of a compound aggregation has to be there.
"""

from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from meterlake.model.catalog.catalog import CompoundAggregation
from meterlake.model.values.period import Month
from meterlake.pipeline.usage.aggregate import aggregate
from tests.homes import HEADER, a_home, configure, csv_row

CASES = sorted(Path(__file__).parent.glob("compounds/*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_quantities_are_those_of_the_file(path, tmp_path):
    case = yaml.safe_load(path.read_text())
    with a_home(tmp_path) as home:
        configure(home.organization, **case["configuration"])
        rows = (
            csv_row(account, gb, account, ts="2026-10-01T00:00:00Z")
            for account, gb in case["gb"].items()
        )
        home.ingest("usage.csv", HEADER + "".join(rows))
        result = aggregate(home.organization, Month(2026, 10))
        accounts = home.account_codes()
        compounds = {
            each.id: each.entity.code
            for each in home.organization.configuration().all(CompoundAggregation)
        }

    found = defaultdict(dict)
    for each in (row.quantity for row in result.rows if row.compound):
        found[compounds[each.aggregation_id]][accounts[each.account_id]] = each.value
    for failure in result.failures:
        found[compounds[failure.compound_id]][accounts[failure.account_id]] = failure.detail
    assert result.left_out == []
    assert found == {
        code: {account: _exact(value) for account, value in of.items()}
        for code, of in case["quantities"].items()
    }


def _exact(value):
    try:
        return Decimal(value)
    except ArithmeticError:
        return value
