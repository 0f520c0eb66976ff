"""Prices that customers have: a person alone only proposes to change them, where the organization wants two."""

import pytest

from meterlake.cli import run
from meterlake.model.catalog.plans import Pricing
from tests.bills import a_home_to_bill
from tests.homes import configure
from tests.people import allow, join, policy

SCALE = ("scale-prices", "--plans", "basic", "--from", "2030-01-01", "--by", "2")
DEARER = """
pricings:
  - {code: sent, planId: basic, aggregationId: sent, startDate: "2026-01-01T00:00:00Z",
     pricingBands: [{lowerLimit: 0, fixedPrice: 0, unitPrice: 9}]}
"""
CHARGED = "plans: [{code: basic, name: Basic, planTemplateId: cloud, standingCharge: 99}]"
OWN = """
pricings:
  - {code: mean, planId: basic, aggregationId: mean, startDate: "2026-01-01T00:00:00Z",
     pricingBands: [{lowerLimit: 0, fixedPrice: 0, unitPrice: 9}]}
"""
RENAMED = "plans: [{code: basic, name: Simple, planTemplateId: cloud}]"
NEW = """
plans: [{code: gold, name: Gold, planTemplateId: cloud}]
pricings:
  - {code: gold, planId: gold, aggregationId: sent, startDate: "2026-01-01T00:00:00Z",
     pricingBands: [{lowerLimit: 0, fixedPrice: 0, unitPrice: 9}]}
"""


@pytest.fixture
def home(tmp_path):
    """Ada and Bob may do everything, together; the program `deploy`, too."""
    with a_home_to_bill(tmp_path) as found:
        state, org = found.stores.state, found.org_id
        everything = policy(state, org, allow())
        for email in ("ada@example.com", "bob@example.com"):
            join(state, org, email, permissionPolicyIds=[everything])
        configure(
            found.organization,
            organizationConfig={"twoPersonApproval": True},
        )
        yield found


@pytest.fixture
def config(home, capsys):
    """Run a command of the group; its code and what it said."""

    def run_it(*arguments):
        capsys.readouterr()
        code = run(["config", *arguments, "--home", str(home.stores.home)])
        return code, " ".join("".join(capsys.readouterr()).split())

    return run_it


def unit_prices(home):
    found = [each.entity for each in home.organization.configuration().all(Pricing)]
    return [each.pricing_bands[0].unit_price for each in sorted(found, key=lambda p: p.start_date)]


def test_a_person_alone_only_proposes_new_prices(home, config):
    code, said = config(*SCALE, "--as", "ada@example.com")
    assert code == 1
    assert "nobody changes its prices alone; make a change proposal" in said
    code, said = config(*SCALE)
    assert code == 1
    assert "say with `--as` who you are" in said
    assert unit_prices(home) == [1]
    proposed = (*SCALE, "--propose", "2030", "--reason", "Energy", "--as", "ada@example.com")
    assert config(*proposed)[0] == 0
    assert config("approve", "2030", "--as", "ada@example.com")[0] == 1
    assert config("approve", "2030", "--as", "bob@example.com")[0] == 0
    assert config("apply-proposal", "2030", "--as", "ada@example.com")[0] == 0
    assert unit_prices(home) == [1, 2]


@pytest.mark.parametrize("content", [DEARER, CHARGED, OWN])
def test_files_of_a_person_do_not_walk_round_it(home, config, tmp_path, content):
    file = tmp_path / "prices.yaml"
    file.write_text(content)
    code, said = config("apply", str(file), "--as", "ada@example.com")
    assert code == 1
    assert "the organization wants two persons (`twoPersonApproval`)" in said
    assert unit_prices(home) == [1]
    assert config("apply", str(file), "--dry-run")[0] == 0


@pytest.mark.parametrize("content", [RENAMED, NEW])
def test_what_no_customer_pays_is_changed_by_one_person(config, tmp_path, content):
    file = tmp_path / "names.yaml"
    file.write_text(content)
    code, said = config("apply", str(file), "--as", "ada@example.com")
    assert code == 0, said


def test_prices_of_one_person_hold_where_the_organization_does_not_mind(home, config):
    configure(home.organization, organizationConfig={"twoPersonApproval": False})
    code, said = config(*SCALE, "--as", "ada@example.com")
    assert code == 0, said
    assert unit_prices(home) == [1, 2]
