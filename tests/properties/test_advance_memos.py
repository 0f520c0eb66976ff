"""The law of memos: a locked line and its memos are what would be charged if all had been known."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.bills.bill import Bill
from meterlake.model.bills.billed_usage import BilledUsage
from meterlake.model.calendar.recurrence import DayRange
from meterlake.stages.bill import BillIdentity, BillOverrides, BillSelection, billing_terms
from meterlake.stages.bill.advance_memos import find_memos
from meterlake.stages.bill.bills import Provenance, make_bills
from meterlake.stages.bill.terms.advance_lines import AdvanceLine, ClosedBills, may_have_changed
from tests.billing_world import World
from tests.laws import examples

START = datetime(2026, 1, 1, tzinfo=UTC)
RATE = Decimal("0.85473")

amounts = st.decimals("0.01", 5000, places=2)
# Hours of more than three years, many of them midnights.
ends = st.one_of(st.none(), st.integers(1, 1200).map(lambda day: day * 24), st.integers(1, 28_800))
plans = st.fixed_dictionaries(
    {
        "standing_charge": st.one_of(st.just(Decimal(0)), amounts),
        "minimum_spend": st.one_of(st.none(), amounts),
        "bill_frequency": st.sampled_from(["MONTHLY", "ANNUALLY"]),
        "standing_charge_interval": st.integers(1, 4),
        "standing_charge_offset": st.just(0),
        "standing_charge_bill_in_advance": st.booleans(),
        "minimum_spend_bill_in_advance": st.booleans(),
    }
)


def end_of(hours):
    return None if hours is None else START + timedelta(hours=hours)


class Case:
    """One account on one plan, which ends at another time again and again."""

    def __init__(self, plan, seats, currency):
        self.world = World(
            timezone="Europe/Berlin",
            currency_conversions=({"from": "USD", "to": "EUR", "multiplier": RATE},),
        )
        self.world.plan("plan", plan)
        self.world.counter("seats")
        self.world.counter_pricing(
            "plan", "seats", [(0, 0, Decimal("1.37"))], pro_rate_running_total=True
        )
        self.world.account("acme", currency=currency)
        if seats:
            self.world.adjust("acme", "seats", "2025-12-01", seats)
        self.record_id = self.world.subscribe("acme", "plan", start_date=START)

    def end(self, hours):
        record = self.world.records[self.record_id]
        entity = record.entity.model_copy(update={"end_date": end_of(hours)})
        self.world.records[self.record_id] = replace(
            record, version=record.version + 1, entity=entity
        )

    def bill(self, day):
        """The bill of a date; None if there is none."""
        selection = BillSelection(DayRange.of_day(day - timedelta(days=1)))
        terms = billing_terms(self.world.configuration, selection)
        made = list(make_bills(terms, BilledUsage(), Provenance(1, "1.0")))
        return next((each for each in made if isinstance(each, Bill)), None)

    def in_advance(self, day):
        """The lines of a bill that are about a time after it, by key."""
        bill = self.bill(day)
        lines = () if bill is None else bill.lines
        return {
            line.key: (bill, line) for line in lines if line.service_period.end > bill.period.end
        }


def locked_line(case, bill, line, settled):
    record = case.world.records[case.record_id]
    return AdvanceLine(
        bill_id="bill",
        line_id=line.key,
        bill=BillIdentity.of_bill(bill),
        overrides=BillOverrides(),
        key=line.key,
        body={
            **line.to_wire(),
            "servicePeriodStartDate": line.service_period.start.isoformat(),
            "servicePeriodEndDate": line.service_period.end.isoformat(),
        },
        currency=bill.currency,
        account_plan_id=case.record_id,
        active_days=line.made_from.active_days,
        period_days=line.made_from.period_days,
        before=(record,),
        settled=settled,
    )


@given(
    plans,
    st.integers(0, 9),
    st.sampled_from(["USD", "EUR"]),
    st.sampled_from([date(2026, 1, 1), date(2026, 2, 1), date(2026, 3, 1), date(2027, 1, 1)]),
    st.lists(ends, min_size=1, max_size=4),
)
@settings(max_examples=examples(80), deadline=None)
def test_a_locked_line_and_its_memos_are_what_is_charged_from_scratch(
    plan, seats, currency, day, times
):
    """Also if each memo is locked before the plan ends at yet another time."""
    case = Case(plan, seats, currency)
    case.end(times[0])
    locked = [locked_line(case, *found, Decimal(0)) for found in case.in_advance(day).values()]
    settled = Counter()
    for number, hours in enumerate(times[1:]):
        case.end(hours)
        lines = [each._replace(settled=Decimal(settled[each.key])) for each in locked]
        account_plan = case.world.records[case.record_id].entity
        time = (account_plan.start_date, account_plan.end_date)
        looked_at = [each for each in lines if may_have_changed(each, time)]
        scratch = case.in_advance(day)
        # Of what is not looked at, nothing changes. What was corrected before is looked at.
        memos = find_memos(case.world.configuration, looked_at, ClosedBills(()))
        for memo in memos:
            settled[memo.referenced_line_id] += memo.amount
            assert memo.bill.bill_date > day
        for line in locked:
            charged = scratch.get(line.key)
            expected = charged[1].converted_subtotal if charged else Decimal(0)
            assert line.amount + settled[line.key] == expected, number
