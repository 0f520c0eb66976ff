"""One organization of a home: whatever is read or written through it is its own."""

import pytest

from meterlake.model.catalog.catalog import Product
from meterlake.model.values.period import Month
from meterlake.pipeline.home.setup import initialize
from meterlake.stores import open_stores
from tests.homes import settings


@pytest.fixture
def two(tmp_path):
    """Two organizations, each with a product named after it."""
    options = settings(tmp_path / "home")
    made = [initialize(options, name) for name in ("Acme", "Bolt")]
    with open_stores(options) as stores:
        found = [stores.organization(each.org_id) for each in made]
        for each in found:
            with each.transaction("test") as transaction:
                transaction.create(Product.from_wire({"name": each.name, "code": each.code}))
        yield found


def products(organization):
    with organization.reading() as reader:
        return [each.entity.name for each in reader.all(Product)]


def test_each_reads_and_writes_its_own(two):
    assert [products(each) for each in two] == [["Acme"], ["Bolt"]]
    assert [each.code for each in two] == ["acme", "bolt"]
    names = [[record.entity.name for record in each.configuration().all(Product)] for each in two]
    assert names == [["Acme"], ["Bolt"]]


def test_each_has_its_own_place(two):
    for place in ("lake_folder", "segment_folder"):
        first, second = (getattr(each, place) for each in two)
        assert first != second
    assert two[0].lake.folder != two[1].lake.folder


def test_as_it_was_and_as_it_would_be_is_its_own_too(two):
    for each in two:
        # Its first transaction made it, the second one the product.
        assert [products(each.past(number)) for number in (1, 2)] == [[], [each.name]]
        with each.simulating(Month.parse("2026-10")) as (simulated, _):
            assert products(simulated) == [each.name]
