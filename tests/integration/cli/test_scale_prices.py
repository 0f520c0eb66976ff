"""`meterlake config scale-prices`: old and new prices, their effect, and the change itself."""

import json

import pytest

from meterlake.cli import run
from meterlake.model.catalog.plans import Pricing
from tests.bills import a_home_to_bill

OPTIONS = ("--plans", "basic", "--from", "2026-10-01")


@pytest.fixture
def home(tmp_path):
    with a_home_to_bill(tmp_path) as found:
        yield found


@pytest.fixture
def scale(home, capsys):
    """Run the command; the code and what was printed."""

    def run_it(*arguments):
        capsys.readouterr()
        code = run(["config", "scale-prices", *arguments, "--home", str(home.stores.home)])
        return code, *capsys.readouterr()

    return run_it


def prices(home):
    found = [each.entity for each in home.organization.configuration().all(Pricing)]
    return sorted(found, key=lambda each: each.start_date)


def test_a_dry_run_shows_prices_and_their_effect_and_writes_nothing(home, scale):
    code, out, err = scale(*OPTIONS, "--by", "1.07", "--effect", "2026-09", "--dry-run")

    assert code == 0, err
    assert "1.07" in out
    assert "Bills of 2026-09" in out
    assert "two decimals more than the old price has" in out + err
    assert "1 price changes on 2026-10-01 (dry run: nothing was written)" in out + err
    assert len(prices(home)) == 1


def test_prices_are_changed_by_who_is_named(home, scale):
    code, out, err = scale(*OPTIONS, "--by", "2", "--json")

    assert code == 0, err
    assert json.loads(out)["changed"][0]["bands"][0]["unitPrice"] == {"old": 1, "new": 2}
    assert [each.pricing_bands[0].unit_price for each in prices(home)] == [1, 2]


def test_a_table_decides_for_what_it_names(home, scale, tmp_path):
    table = tmp_path / "factors.csv"
    table.write_text("aggregation,by\nsent,1.5\n")
    code, _, err = scale(*OPTIONS, "--table", str(table))

    assert code == 0, err
    assert str(prices(home)[1].pricing_bands[0].unit_price) == "1.5"


def test_a_table_has_new_prices_by_band(home, scale, tmp_path):
    table = tmp_path / "prices.csv"
    table.write_text("plan,aggregation,above,price\nbasic,sent,0,1.25\n")
    code, _, err = scale(*OPTIONS, "--table", str(table))

    assert code == 0, err
    assert str(prices(home)[1].pricing_bands[0].unit_price) == "1.25"
    assert prices(home)[1].pricing_bands[1:] == prices(home)[0].pricing_bands[1:]


@pytest.mark.parametrize(
    ("options", "table", "told"),
    [
        (OPTIONS, None, "--by or --table is required"),
        ((*OPTIONS, "--by", "more"), None, "--by: 'more' is not allowed"),
        (("--plans", "gold", "--from", "2026-10-01", "--by", "2"), None, "'gold' is not allowed"),
        (OPTIONS, "product,by\nsent,2\n", "it must have the columns by"),
        (OPTIONS, "plan,by\nbasic,x\n", "'x' is not allowed: it must be a number"),
        (OPTIONS, "plan,by\nbasic,2,3\n", "it must have the columns by"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_changes(home, scale, tmp_path, options, table, told):
    more = ()
    if table is not None:
        (tmp_path / "factors.csv").write_text(table)
        more = ("--table", str(tmp_path / "factors.csv"))
    code, _, err = scale(*options, *more)

    assert code == 1
    assert told in " ".join(err.split())
    assert len(prices(home)) == 1
