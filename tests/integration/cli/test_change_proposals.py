"""`meterlake config propose` and its kin: a change that waits for a review, from file to price."""

import json

import pytest

from meterlake.cli import run
from meterlake.model.catalog.plans import Pricing
from tests.bills import a_home_to_bill
from tests.homes import configure
from tests.people import allow, join, policy

SCALE = ("scale-prices", "--plans", "basic", "--from", "2030-01-01", "--by", "2")


@pytest.fixture
def home(tmp_path):
    with a_home_to_bill(tmp_path) as found:
        yield found


@pytest.fixture
def config(home, capsys):
    """Run a command of the group; what was printed, if it ended as expected."""

    def run_it(*arguments, code=0):
        capsys.readouterr()
        found = run(["config", *arguments, "--home", str(home.stores.home)])
        out, err = capsys.readouterr()
        assert found == code, err
        return out + err

    return run_it


def prices(home):
    found = [each.entity for each in home.organization.configuration().all(Pricing)]
    return sorted(found, key=lambda each: each.start_date)


def price_ids(home):
    """Of the old price, and of those that followed."""
    found = home.organization.configuration().all(Pricing)
    return [each.id for each in sorted(found, key=lambda each: each.entity.start_date)]


def test_proposed_prices_are_reviewed_and_then_applied(home, config):
    said = config(*SCALE, "--propose", "Prices of 2030", "--reason", "Energy")
    assert "nothing was written" in said
    assert len(prices(home)) == 1
    assert "Prices of 2030  PROPOSED" in config("proposals")

    said = config("show-proposal", "Prices of 2030", "--effect")
    assert "2030-01-01" in said
    assert "Bills" in said
    assert "must be approved" in config("apply-proposal", "Prices of 2030", code=1)
    config("approve", "Prices of 2030", "--comment", "As agreed")
    assert "applied (2 entities)" in config("apply-proposal", "Prices of 2030")
    assert [each.pricing_bands[0].unit_price for each in prices(home)] == [1, 2]
    assert "Prices of 2030" in config("proposals", "--entity", price_ids(home)[1])
    assert "Nobody has proposed" in config("proposals", "--entity", home.org_id)
    [shown] = config("show-proposal", "Prices of 2030", "--json").splitlines()
    assert [each["status"] for each in json.loads(shown)["acts"]] == [
        *("PROPOSED", "APPROVED", "APPLIED")
    ]


def test_files_are_proposed_as_they_would_be_applied(home, config, tmp_path):
    (tmp_path / "new.yaml").write_text("products: [{code: tools, name: Tools}]\n")
    made = config("propose", str(tmp_path / "new.yaml"), "--name", "Tools", "--reason", "New")
    assert "created" in made
    configure(home.organization, products=[{"code": "tools", "name": "Other tools"}])

    assert "no longer fits" in config("show-proposal", "Tools")
    assert "products 'tools'" in config("approve", "Tools", code=1)
    assert "withdrawn" in config("withdraw", "Tools", "--comment", "Somebody made it")
    assert "updated" in config("propose-again", "Tools")
    assert "no longer fits" not in config("show-proposal", "Tools")
    assert "must be rejected or withdrawn" in config("propose-again", "Tools", code=1)


def test_what_is_wrong_with_files_is_told_by_line(config, tmp_path):
    (tmp_path / "wrong.yaml").write_text("products:\n- {code: tools, nam: Tools}\n")
    said = config(
        *("propose", str(tmp_path / "wrong.yaml"), "--name", "a", "--reason", "b"), code=1
    )

    assert "wrong.yaml:2" in said
    assert "No" in config("proposals")


def test_a_proposal_needs_a_reason_and_a_name_that_is_there(config):
    assert "give --reason" in config(*SCALE, "--propose", "Some", code=1)
    assert "no change proposal 'Other'" in config("approve", "Other", code=1)
    assert "must be one of PROPOSED" in config("proposals", "--status", "open", code=1)


def test_two_persons_give_their_names(home, config):
    configure(home.organization, organizationConfig={"twoPersonApproval": True})
    state = home.stores.state
    all_ = policy(state, home.org_id, allow())
    for name in ("ada", "bob"):
        join(state, home.org_id, f"{name}@example.com", permissionPolicyIds=[all_])
    ada, bob = ("--as", "ada@example.com"), ("--as", "bob@example.com")
    config(*SCALE, "--propose", "Prices", "--reason", "Energy", *ada)

    assert "ask a colleague" in config("approve", "Prices", *ada, code=1)
    assert "say with `--as`" in config("approve", "Prices", code=1)
    config("approve", "Prices", *bob)
    assert "by bob@example.com" in config("show-proposal", "Prices")
    config("apply-proposal", "Prices", *ada)
    assert len(prices(home)) == 2
