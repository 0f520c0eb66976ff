"""What a bill has after each step of its calculation."""

from datetime import date
from decimal import Decimal

from meterlake.model.customers.contracts import Commitment
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import Month
from meterlake.stages.bill import BillMaker, BillSelection, Provenance, billing_terms
from meterlake.stages.bill.charges.line_draft import BillDraft
from meterlake.stages.bill.credits.credit_sources import AccountLedger
from meterlake.stages.bill.credits.funds import BillMoment
from meterlake.stages.bill.lines import STEPS, finish_step
from meterlake.stages.bill.periods.due_periods import BillIdentity
from tests.billing_world import World


def draft_of(world):
    terms = billing_terms(world.configuration, BillSelection(Month(2026, 10)))
    maker = BillMaker(terms, world.usage(terms), Provenance(7, "1.0"))
    [account] = maker.accounts
    [due] = account.bills
    moment = BillMoment(BillIdentity(*due.key).rank, terms.zone)
    left = account.sources.on_bill(AccountLedger().movements, moment, terms.currencies, "USD")
    return BillDraft(due, "USD", maker.inputs, account.sources, left)


def test_every_step_adds_its_lines_to_those_before():
    world = World()
    world.currency("USD", 2)
    world.aggregation("sum")
    world.plan("basic", {"standing_charge": 31, "minimum_spend": 50})
    world.pricing("basic", "sum", [(0, 0, 1)])
    world.account("acme", "basic")
    world.use("acme", "2026-10-05T00:00:00Z", 30)
    commitment = Commitment(
        account_id=derived_id("Account", "acme"),
        start_date=date(2026, 1, 1),
        end_date=date(2027, 1, 1),
        currency="USD",
        amount=Decimal(70),
        overage_surcharge_percent=Decimal(10),
    )
    world.add(commitment, "commitment")
    draft, total, found = draft_of(world), Decimal(0), {}

    for step in STEPS:
        draft.lines += finish_step(draft, list(step(draft)))
        amount = sum((each.amount for each in draft.lines), Decimal(0))
        found[step.__name__] = amount - total
        total = amount

    assert list(found) == [
        "usage_charges",
        "counter_charges",
        "standing_charges",
        "minimum_spends",
        "commitment_charges",
        "ad_hoc_charges",
        "usage_credits",
        "consumed_credits",
        "overage_charges",
        "advance_memos",
    ]
    assert {step: int(amount) for step, amount in found.items() if amount} == {
        "usage_charges": 30,
        "standing_charges": 31,
        "minimum_spends": 20,
        "consumed_credits": -70,
    }
