"""The law of marketplaces: all records together are the bills, whatever happens to the calls."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.databases import copy_home
from tests.doubles.marketplace import RECORDS_MAX, running_marketplace
from tests.laws import examples
from tests.market_world import ACCOUNTS, TROUBLES, Step, make_market_home, open_market

MONTHS = st.integers(1, 3)
# Thousandths of a dollar, so that there are fractions of a cent; and bills that are credits.
TOTALS = st.integers(-20_000, 100_000)
CHANGES = st.lists(st.tuples(st.integers(0, 2), MONTHS, TOTALS), min_size=1, max_size=4)
EVERYBODY = st.builds(
    lambda month, total: [(number, month, total + number) for number in range(len(ACCOUNTS))],
    MONTHS,
    TOTALS,
)
STEPS = st.lists(
    st.builds(
        Step,
        st.one_of(CHANGES, CHANGES, EVERYBODY),
        st.sampled_from([None, *TROUBLES]),
        st.sampled_from([0, 0, 1, 2, 7]),
    ),
    min_size=1,
    max_size=7,
)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("market") / "home"
    return path, make_market_home(path)


@pytest.fixture(scope="module")
def market():
    with pytest.MonkeyPatch.context() as patch, running_marketplace() as found:
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield found


def check_law(template, market, steps):
    path, org_id = template
    market.calls.clear()
    with tempfile.TemporaryDirectory() as folder:
        copy_home(path, Path(folder) / "home")
        with open_market(Path(folder) / "home", org_id, market) as world:
            for step in steps:
                world.take(step)
            world.settle()
            before = world.reported()
            # Nothing was reported that nobody ever owed.
            assert all(cents <= world.peaks[account] for account, cents in before.items())
            world.exceed()
            world.settle()

            # What was too much is used up, and less than a cent is left.
            assert world.reported() == {account: world.cents(account) for account in before}
            report = world.usage_report()
            heard = {key: n for key, n in market.taken.items() if key not in world.unheard}
            assert report == heard
    assert max(market.calls, default=0) <= RECORDS_MAX


@settings(max_examples=examples(2), phases=(Phase.reuse, Phase.generate))
@given(steps=STEPS)
def test_all_records_are_the_bills(template, market, steps):
    check_law(template, market, steps)


@pytest.mark.slow
@settings(max_examples=60, phases=(Phase.reuse, Phase.generate))
@given(steps=STEPS)
def test_all_records_are_the_bills_in_many_worlds(template, market, steps):
    check_law(template, market, steps)
