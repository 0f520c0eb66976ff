from contextlib import nullcontext
from decimal import Decimal

import pytest

from meterlake.model.bills.requests import BillStatus
from meterlake.model.errors import NotFound, Unavailable
from meterlake.model.values import failpoint
from meterlake.model.values.period import Month
from meterlake.pipeline.billing import run as verb
from meterlake.pipeline.billing.jobs import jobs as bill_jobs
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.batch import BillOutcome
from meterlake.stores.state.jobs import JobStatus
from tests.bills import a_home_to_bill, subscribe, use
from tests.homes import configure
from tests.long_cases import long_after

pytestmark = pytest.mark.usefixtures("home_database")

D = Decimal
SEPTEMBER = Month(2026, 9)


@pytest.fixture
def home(tmp_path):
    with a_home_to_bill(tmp_path) as opened:
        yield opened


def run(home, **options):
    return bill(home.organization, SEPTEMBER, **options)


def stored(home):
    with home.organization.reading() as reader:
        found = bills.of_period(reader, "2026-09")
    return {each.content.body["accountCode"]: each for each in found}


def outcomes(result):
    return {each.account_code: each.stored.value for each in result.bills}


def change(home, function, code, *arguments):
    with home.organization.transaction("someone") as transaction:
        function(transaction, stored(home)[code].id, *arguments)


def test_every_account_on_a_plan_gets_its_bill(home):
    result = run(home)

    assert outcomes(result) == {"acme": "created", "bolt": "created"}
    assert result.totals == {"USD": D("204.50")}
    assert {code: each.content.total for code, each in stored(home).items()} == {
        "acme": D("73.50"),  # 31 + 42.5
        "bolt": 131,  # 31 + 100
    }
    assert {each.status for each in stored(home).values()} == {BillStatus.PENDING}


def test_a_stored_line_tells_what_it_was_made_from(home):
    result = run(home)
    acme = stored(home)["acme"]
    line, _ = acme.content.lines

    assert acme.content.pins["snapshot"] == line.pins["snapshot"] == result.snapshot
    assert line.body["quantity"] == D("42.5")
    assert [band["bandSubtotal"] for band in line.body["usagePerPricingBand"]] == [D("42.5")]
    assert line.pins["measurements"] == 2
    assert line.pins["aggregationVersion"] == line.pins["pricingVersion"] == 1
    assert acme.content.pins["versions"][line.body["pricingId"]] == 1


def test_billing_twice_changes_nothing(home):
    run(home)
    before = stored(home)
    home.clock.advance(hours=1)
    again = run(home)

    assert outcomes(again) == {"acme": "unchanged", "bolt": "unchanged"}
    assert stored(home) == before


@pytest.mark.long
def test_another_snapshot_alone_changes_nothing(home):
    run(home)
    before = stored(home)
    home.ingest(
        "later.csv", "meter,account,uid,ts,measure.gb\negress,acme,x,2026-08-01T00:00:00Z,1\n"
    )
    again = run(home)

    assert again.snapshot > before["acme"].content.pins["snapshot"]
    assert stored(home) == before


@pytest.mark.long
def test_late_usage_brings_a_bill_to_its_next_version_and_back_to_pending(home):
    run(home, approve=True)
    assert {each.status for each in stored(home).values()} == {BillStatus.APPROVED}
    use(home, ("4", "acme", 1))
    result = run(home)

    assert outcomes(result) == {"acme": "updated", "bolt": "unchanged"}
    acme, bolt = (stored(home)[code] for code in ("acme", "bolt"))
    assert (acme.version, acme.status, acme.content.total) == (2, BillStatus.PENDING, D("74.50"))
    assert (bolt.version, bolt.status) == (1, BillStatus.APPROVED)
    assert len(acme.content.lines) == 2


@pytest.mark.long
def test_approving_approves_what_has_not_changed_as_well(home):
    run(home)
    result = run(home, approve=True)

    assert outcomes(result) == {"acme": "approved", "bolt": "approved"}
    assert {(each.version, each.status) for each in stored(home).values()} == {
        (2, BillStatus.APPROVED)
    }
    assert outcomes(run(home, approve=True)) == {"acme": "unchanged", "bolt": "unchanged"}


@pytest.mark.long
def test_a_locked_bill_is_left_alone_and_reported(home):
    run(home, approve=True)
    change(home, bills.lock, "acme")
    locked = stored(home)["acme"]
    assert outcomes(run(home)) == {"acme": "unchanged", "bolt": "unchanged"}
    use(home, ("4", "acme", 1))
    result = run(home)

    assert outcomes(result) == {"acme": "locked", "bolt": "unchanged"}
    assert stored(home)["acme"] == locked
    [acme] = result.of(BillOutcome.LOCKED)
    assert (acme.total, acme.lines, acme.would_be) == (D("73.5"), 2, (D("74.5"), "USD"))
    assert result.totals == {"USD": D("73.5") + 131}


@pytest.mark.long
def test_some_accounts_only(home):
    result = run(home, accounts=["bolt"])

    assert outcomes(result) == {"bolt": "created"}
    assert set(stored(home)) == {"bolt"}
    with pytest.raises(NotFound, match="nobody"):
        run(home, accounts=["nobody"])


@pytest.mark.long
def test_an_account_that_cannot_be_billed_leaves_the_others_and_its_old_bill(home):
    run(home)
    old = stored(home)["acme"]
    configure(
        home.organization,
        currencies=[{"code": "EUR", "name": "Euro"}],
        accounts=[
            {
                "code": "acme",
                "name": "Acme",
                "emailAddress": "bills@acme.example",
                "currency": "EUR",
            }
        ],
    )
    use(home, ("4", "bolt", -150))
    result = run(home)

    assert outcomes(result) == {"bolt": "updated"}
    assert [(each.account_code, each.reason) for each in result.failures] == [
        (
            "acme",
            "the organization has no conversion rate from USD to EUR; add it to currencyConversions; its bill of 2026-10-01 stands",
        )
    ]
    assert stored(home)["acme"] == old


@pytest.mark.long
def test_usage_that_nothing_prices_is_reported(home):
    use(home, ("4", "stranger", 5))
    result = run(home)

    assert [
        (each.account_code, each.aggregation_code, each.quantity) for each in result.unpriced
    ] == [("stranger", "sent", 5)]


@pytest.mark.long
def test_a_bill_is_a_job_with_its_snapshot_and_result(home):
    result = run(home)
    job = home.stores.state.jobs.get(result.job_id)

    assert (job.kind, job.status, job.snapshot) == ("bill", JobStatus.COMPLETE, result.snapshot)
    assert job.result["bills"] == {**dict.fromkeys(map(str, BillOutcome), 0), "created": 2}
    assert job.result["totals"] == {"USD": "204.5"}


@pytest.mark.parametrize("step", ["bill.folded", "bill.stored"])
@pytest.mark.parametrize("batch", long_after(1, [1000, 1]))
def test_a_run_that_dies_is_completed_by_the_next_one(home, step, batch, monkeypatch):
    def die(name):
        if name == step:
            raise KeyboardInterrupt

    monkeypatch.setattr(verb, "BATCH", batch)
    monkeypatch.setattr(failpoint, "hook", die)
    with pytest.raises(KeyboardInterrupt):
        run(home)
    monkeypatch.setattr(failpoint, "hook", None)
    left = set(stored(home))
    result = run(home)

    assert {code for code, what in outcomes(result).items() if what == "unchanged"} == left
    assert {each.version for each in stored(home).values()} == {1}
    assert sum(each.content.total for each in stored(home).values()) == D("204.50")


def test_a_dead_run_is_a_failed_job(home, monkeypatch):
    monkeypatch.setattr(failpoint, "hook", lambda name: 1 / (name != "bill.folded"))
    with pytest.raises(ZeroDivisionError):
        run(home)
    monkeypatch.setattr(failpoint, "hook", None)
    [job] = home.stores.state.jobs.recent(home.org_id, "bill")

    assert job.status is JobStatus.FAILED
    assert stored(home) == {}


@pytest.mark.parametrize(("times", "status"), [(2, JobStatus.COMPLETE), (3, JobStatus.FAILED)])
def test_who_bills_waits_for_a_world_that_fails(home, monkeypatch, times, status):
    left = [times]

    def fail(step):
        if step == "bill.stored" and left[0]:
            left[0] -= 1
            raise Unavailable("the State database", "gone")

    monkeypatch.setattr(bill_jobs, "_TRIES", 3)
    monkeypatch.setattr(bill_jobs, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(failpoint, "hook", fail)
    with pytest.raises(Unavailable) if status is JobStatus.FAILED else nullcontext():
        run(home)
    monkeypatch.setattr(failpoint, "hook", None)

    [job] = home.stores.state.jobs.recent(home.org_id, "bill")
    assert (job.status, job.attempt) == (status, 1)
    assert {each.version for each in stored(home).values()} == {1}
    assert job.progress["pending"] == 0
    assert sum(each.content.total for each in stored(home).values()) == D("204.50")


@pytest.mark.long
def test_who_is_taken_off_its_plan_is_billed_nothing_any_more(home):
    run(home)
    subscribe(home, "acme", start="2026-12-01T00:00:00Z")
    result = run(home)

    assert outcomes(result) == {"acme": "updated", "bolt": "unchanged"}
    assert stored(home)["acme"].content.total == 0
    assert [each.account_code for each in result.unpriced] == ["acme"]


def settings(home, **changes):
    configure(home.organization, organizationConfig={"daysBeforeBillDue": 30, **changes})


def under_contracts(home):
    """acme has two contracts with bills of their own, beside the plan that it is on."""
    storage = {"code": "storage", "name": "Storage", "productId": "storage", "currency": "USD"}
    terms = {"standingCharge": 5, "billFrequency": "MONTHLY"}
    years = {"startDate": "2026-01-01", "endDate": "2027-01-01"}
    configure(
        home.organization,
        billGroupingKeys=[{"code": "own", "name": "Own", "exclusive": True}],
        products=[{"code": "storage", "name": "Storage"}],
        planTemplates=[storage | terms],
        plans=[{"code": "storage", "name": "Storage", "planTemplateId": "storage"}],
        contracts=[
            {"code": "a", "name": "A", "accountId": "acme", "billGroupingKeyId": "own", **years}
        ],
        accountPlans=[
            {
                "code": "storage",
                "accountId": "acme",
                "planId": "storage",
                "contractId": "a",
                "startDate": "2026-01-01T00:00:00Z",
            }
        ],
    )


def stored_bills(home):
    with home.organization.reading() as reader:
        return bills.of_period(reader, "2026-09")


def every_bill(home):
    return sorted(
        (each.content.body["accountCode"], each.content.key.frequency, each.content.total)
        for each in stored_bills(home)
    )


@pytest.mark.long
def test_a_contract_with_an_exclusive_key_has_a_bill_of_its_own(home):
    run(home)
    under_contracts(home)

    added, again = run(home), run(home)

    expected = [
        ("acme", "MONTHLY", D("5.00")),
        ("acme", "MONTHLY", D("73.50")),
        ("bolt", "MONTHLY", D("131.00")),
    ]
    assert every_bill(home) == expected
    assert sorted(each.stored.value for each in added.bills) == ["created"] + ["unchanged"] * 2
    assert {each.stored.value for each in again.bills} == {"unchanged"}


@pytest.mark.long
@pytest.mark.parametrize("first", [False, True], ids=["consolidated", "not any more"])
def test_bills_of_before_are_charged_once_whatever_is_consolidated(home, first):
    """They stay, and nothing of them stands on another bill until somebody deletes them."""
    kinds = ("MIXED", "MONTHLY") if first else ("MONTHLY", "MIXED")
    settings(home, consolidateBills=first)
    run(home, accounts=["bolt"])
    settings(home, consolidateBills=not first)

    outcome = run(home)

    assert every_bill(home) == sorted(
        [("acme", kinds[1], D("73.50")), ("bolt", kinds[0], D("131.00"))]
    )
    [failure] = outcome.failures
    [old] = [each for each in stored_bills(home) if each.content.key.frequency == kinds[0]]
    assert (failure.account_code, old.id in failure.reason) == ("bolt", True)
    with home.organization.transaction("test") as transaction:
        bills.remove(transaction, old.id)
    again = run(home)
    assert again.failures == []
    assert every_bill(home) == [("acme", kinds[1], D("73.50")), ("bolt", kinds[1], D("131.00"))]
