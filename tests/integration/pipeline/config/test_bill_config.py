"""The lock date: set against open bills, obeyed by billing, moved back."""

import pytest

from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.organization import BillConfig
from meterlake.model.errors import Invalid, Locked, Required, StaleVersion
from meterlake.model.resources import BY_ENTITY
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.stores.state.billing.bills import bills
from tests.bills import a_home_to_bill, subscribe, use
from tests.homes import configure

SEPTEMBER = Month(2026, 9)
PLACE = ResourceRef(BY_ENTITY[BillConfig], {})


@pytest.fixture
def home(tmp_path):
    with a_home_to_bill(tmp_path) as opened:
        yield opened


def run(home, **options):
    return bill(home.organization, SEPTEMBER, **options)


def outcomes(result):
    return {each.account_code: each.stored.value for each in result.bills}


def lock(home, day, version=None):
    current = entities.retrieve(home.organization, PLACE)["version"]
    document = {"version": version or current, "billLockDate": day}
    return entities.update(home.organization, "USER_1", PLACE, document)


def test_every_organization_has_one_from_the_start(home):
    config = entities.retrieve(home.organization, PLACE)

    assert config["version"] == 1
    assert "billLockDate" not in config


def test_an_update_names_the_current_version(home):
    with pytest.raises(Required):
        entities.update(home.organization, "USER_1", PLACE, {"billLockDate": "2026-01-01"})
    with pytest.raises(StaleVersion):
        lock(home, "2026-01-01", version=7)
    with pytest.raises(Invalid, match="billLockDate"):
        lock(home, "soon")

    assert lock(home, "2026-01-01")["version"] == 2
    assert "billLockDate" not in lock(home, None)


@pytest.mark.long
def test_a_pending_bill_stands_against_the_date_on_which_it_ends(home):
    run(home)

    assert lock(home, "2026-09-29")["version"] == 2
    with pytest.raises(
        Invalid, match="billLockDate: '2026-09-30' is not allowed: it must be a day before"
    ):
        lock(home, "2026-09-30")


@pytest.mark.long
def test_files_cannot_close_a_pending_bill_either(home):
    run(home)

    with pytest.raises(Invalid, match="billLockDate"):
        configure(home.organization, billConfig={"billLockDate": "2026-09-30"})
    configure(home.organization, billConfig={"billLockDate": "2026-09-29"})


@pytest.mark.long
def test_billing_leaves_closed_bills_alone(home):
    run(home, approve=True)
    lock(home, "2026-09-30")
    use(home, ("4", "acme", 1))

    assert outcomes(run(home)) == {"acme": "locked", "bolt": "unchanged"}
    lock(home, "2026-09-29")
    assert outcomes(run(home)) == {"acme": "updated", "bolt": "unchanged"}


def test_an_account_without_a_bill_gets_none_in_closed_time(home):
    run(home, approve=True, accounts=["acme"])
    lock(home, "2026-09-30")

    result = run(home)

    assert outcomes(result) == {"acme": "unchanged"}
    assert [each.account_code for each in result.failures] == ["bolt"]
    assert result.failures[0].reason == (
        "has no bill until 2026-10-01, and the bill lock date allows none: set that to an earlier day"
    )


def test_a_closed_bill_is_not_changed_by_hand(home):
    result = run(home, approve=True)
    lock(home, "2026-09-30")
    bill_id = result.bills[0].bill_id

    for change in (
        lambda transaction: bills.set_status(transaction, bill_id, BillStatus.PENDING),
        lambda transaction: bills.lock(transaction, bill_id),
    ):
        with (
            pytest.raises(Locked),
            home.organization.transaction("USER_1") as transaction,
        ):
            change(transaction)


@pytest.mark.long
def test_the_next_month_is_open(home):
    lock(home, "2026-09-01")
    subscribe(home, "acme")

    assert outcomes(run(home)) == {"acme": "created", "bolt": "created"}
