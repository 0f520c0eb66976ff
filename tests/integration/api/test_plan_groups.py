"""Plan groups over HTTP: an account on a group is billed by all its plans."""

from datetime import UTC, datetime
from decimal import Decimal

import m3ter
import pytest

from meterlake.pipeline.billing.jobs.jobs import run_bill_job
from tests.served import served


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("groups") / "home") as found:
        yield found


@pytest.fixture(scope="module")
def sdk(server):
    with server.sdk() as client:
        yield client


def a_plan(sdk: m3ter.M3ter, code: str, charge: float, minimum: float) -> str:
    product = sdk.products.create(code=code, name=code.title())
    template = sdk.plan_templates.create(
        code=code,
        name=code,
        product_id=product.id,
        currency="USD",
        standing_charge=charge,
        minimum_spend=minimum,
        bill_frequency="MONTHLY",
    )
    return sdk.plans.create(code=code, name=code, plan_template_id=template.id).id


@pytest.mark.long
def test_lines_of_the_plans_of_a_group_stand_beside_each_other(server, sdk):
    plans = [a_plan(sdk, "disk", 10, 300), a_plan(sdk, "cpu", 20, 250)]
    group = sdk.plan_groups.create(name="Both", code="both", currency="USD", minimum_spend=1000)
    for each in plans:
        sdk.plan_group_links.create(plan_group_id=group.id, plan_id=each)
    account = sdk.accounts.create(code="acme", name="Acme", email_address="a@example.com")
    sdk.account_plans.create(
        account_id=account.id, plan_group_id=group.id, start_date=datetime(2026, 9, 1, tzinfo=UTC)
    )

    # Again, too: each line is found again as itself.
    for _ in range(2):
        job = sdk.bill_jobs.create(bill_date="2026-10-01", account_ids=[account.id])
        assert run_bill_job(server.stores, job.id).failures == []
        [bill] = sdk.bills.list(account_id=account.id, additional=["lineItems"])
        found = [(each.line_item_type, Decimal(str(each.subtotal))) for each in bill.line_items]

        assert sorted(found) == [
            ("MINIMUM_SPEND", 250),
            ("MINIMUM_SPEND", 300),
            ("MINIMUM_SPEND", 450),
            ("STANDING_CHARGE", 10),
            ("STANDING_CHARGE", 20),
        ]
        assert bill.version == 1
        assert len({each.id for each in bill.line_items}) == len(found)
