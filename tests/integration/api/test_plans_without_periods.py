"""Plans of the frequencies AD_HOC and MIXED over HTTP: they charge nothing, and stop no bill."""

from datetime import UTC, datetime
from decimal import Decimal
from itertools import count

import m3ter
import pytest

from meterlake.model.measurements.receipt import Delivery
from meterlake.pipeline.billing.jobs.jobs import run_bill_job
from meterlake.pipeline.ingest.run import ingest_file
from tests.homes import ndjson
from tests.served import served

D = Decimal
NUMBERS = count()
START = "2026-01-01T00:00:00Z"
MEASURE = [{"category": "MEASURE", "code": "gb", "name": "Gigabytes", "unit": "GB"}]


@pytest.fixture(scope="module")
def server(home_database, tmp_path_factory):
    with served(tmp_path_factory.mktemp(home_database) / "home") as found:
        yield found


@pytest.fixture(scope="module")
def sdk(server):
    with server.sdk() as client:
        yield client


@pytest.fixture(scope="module")
def products(sdk):
    return {code: sdk.products.create(code=code, name=code) for code in ("MONTHLY", "AD_HOC")}


@pytest.fixture(scope="module")
def templates(sdk, products):
    return {
        frequency: sdk.plan_templates.create(
            code=frequency,
            name=frequency,
            product_id=product.id,
            currency="USD",
            standing_charge=31,
            minimum_spend=500,
            bill_frequency=frequency,
        )
        for frequency, product in products.items()
    }


@pytest.fixture(scope="module")
def plans(sdk, templates):
    """A plan of each, with a meter of its own that costs 2 per gigabyte."""
    found = {}
    for frequency, template in templates.items():
        plan = sdk.plans.create(
            code=frequency, name=frequency, plan_template_id=template.id, minimum_spend=0
        )
        meter = sdk.meters.create(
            code=f"of {frequency}", name=frequency, data_fields=MEASURE, derived_fields=[]
        )
        aggregation = sdk.aggregations.create(
            code=frequency,
            name=frequency,
            meter_id=meter.id,
            target_field="gb",
            aggregation="SUM",
            rounding="NONE",
            quantity_per_unit=1,
            unit="GB",
        )
        sdk.pricings.create(
            plan_id=plan.id,
            aggregation_id=aggregation.id,
            start_date=START,
            pricing_bands=[{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 2}],
        )
        found[frequency] = plan
    return found


@pytest.fixture
def account(sdk):
    code = f"account{next(NUMBERS)}"
    return sdk.accounts.create(code=code, name=code, email_address="a@example.com")


@pytest.fixture
def on(sdk, plans, account):
    """Puts the account on plans of some frequencies."""

    def subscribe(*frequencies):
        for each in frequencies:
            sdk.account_plans.create(
                account_id=account.id, plan_id=plans[each].id, start_date=START
            )

    return subscribe


def use(server, tmp_path, account, **quantities):
    """Ingest what an account used on 5 January of the meters of some plans."""
    rows = [
        {
            "meter": f"of {code}",
            "account": account.code,
            "uid": f"{account.code} {code}",
            "ts": "2026-01-05T00:00:00Z",
            "measure": {"gb": gb},
        }
        for code, gb in quantities.items()
    ]
    path = tmp_path / "rows.ndjson"
    path.write_bytes(ndjson(rows))
    ingest_file(server.organization, path, Delivery(account.code, path.name, datetime.now(UTC)))


def charge(sdk, account, **more):
    return sdk.charges.create(
        account_id=account.id,
        code=f"setup {account.code}",
        name="Setup",
        currency="USD",
        entity_type="AD_HOC",
        line_item_type="AD_HOC",
        amount=25,
        service_period_start_date=START,
        service_period_end_date="2026-02-01T00:00:00Z",
        **more,
    )


def commit(sdk, account, **more):
    return sdk.commitments.create(
        account_id=account.id,
        currency="USD",
        amount=470,
        start_date="2026-01-01",
        end_date="2027-01-01",
        **more,
    )


def run(server, sdk, account, *days):
    """What the jobs of some bill dates come to."""
    jobs = [sdk.bill_jobs.create(bill_date=day, account_ids=[account.id]) for day in days]
    return [run_bill_job(server.stores, job.id) for job in jobs]


def bills(sdk, account):
    """The bills of an account by date and frequency, with their lines."""
    return {
        (str(each.bill_date), each.billing_frequency): {
            line.line_item_type: D(str(line.converted_subtotal)) for line in each.line_items
        }
        for each in sdk.bills.list(account_id=account.id, additional=["lineItems"])
    }


def test_a_commitment_with_such_a_plan_is_refused_by_name(sdk, account, plans):
    with pytest.raises(m3ter.BadRequestError, match=r"billingPlanId.*AD_HOC.*feeDates"):
        commit(sdk, account, billing_plan_id=plans["AD_HOC"].id)


def test_a_template_of_which_fees_are_billed_keeps_its_periods(sdk, account, plans, templates):
    commit(sdk, account, billing_plan_id=plans["MONTHLY"].id)
    template = templates["MONTHLY"]

    with pytest.raises(m3ter.BadRequestError, match="billingPlanId"):
        sdk.plan_templates.update(
            template.id,
            code=template.code,
            name=template.name,
            product_id=template.product_id,
            currency="USD",
            standing_charge=31,
            bill_frequency="MIXED",
            version=template.version,
        )


def test_whoever_saves_such_a_template_is_warned(server, products):
    body = {
        "code": "warned",
        "name": "Warned",
        "productId": products["AD_HOC"].id,
        "currency": "USD",
        "standingCharge": 1,
        "billFrequency": "MIXED",
    }
    with server.http() as http:
        answer = http.post("/plantemplates", json=body)

    answer.raise_for_status()
    assert "billFrequency is stored and has no effect" in answer.headers["Warning"]


@pytest.mark.long
def test_an_account_is_billed_for_its_monthly_plan_and_its_charge(
    server, sdk, account, on, tmp_path
):
    """What it used of the other plan is on no bill, and says why."""
    on("MONTHLY", "AD_HOC")
    use(server, tmp_path, account, MONTHLY=10, AD_HOC=7)
    charge(sdk, account, bill_date="2026-02-01")

    [result] = run(server, sdk, account, "2026-02-01")

    assert result.failures == []
    assert bills(sdk, account) == {
        ("2026-02-01", "MONTHLY"): {"USAGE": 20, "STANDING_CHARGE": 31, "AD_HOC": 25}
    }
    [row] = result.unpriced
    assert (row.aggregation_code, row.quantity, row.why) == (
        "AD_HOC",
        7,
        "NoBillingPeriods: the plan 'AD_HOC' of the frequency AD_HOC has no billing periods",
    )
    assert list(result.without) == []


@pytest.mark.long
def test_an_account_on_such_a_plan_alone_has_bills_of_single_dates(server, sdk, account, on):
    on("AD_HOC")
    charge(sdk, account, bill_date="2026-02-14")
    fee = {"service_period_start_date": START, "service_period_end_date": "2027-01-01T00:00:00Z"}
    dates = ("2026-02-01", 300), ("2026-02-14", 170)
    commit(sdk, account, fee_dates=[{"date": day, "amount": each, **fee} for day, each in dates])

    *made, march = run(server, sdk, account, "2026-02-01", "2026-02-14", "2026-03-01")

    assert [each.failures for each in (*made, march)] == [[], [], []]
    assert bills(sdk, account) == {
        ("2026-02-01", "AD_HOC"): {"COMMITMENT_FEE": 300},
        ("2026-02-14", "AD_HOC"): {"COMMITMENT_FEE": 170, "AD_HOC": 25},
    }
    assert [list(each.without) for each in made] == [[], []]
    [row] = march.without
    assert row.reason == "the plan 'AD_HOC' of the frequency AD_HOC has no billing periods"
