"""Accounts that get no bill: of a month without a date, or for a time that was billed before."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from meterlake.model.bills.bill import BilledTime
from meterlake.model.bills.unbilled import NoBill
from meterlake.model.customers.accounts import Account, billed_account_id
from meterlake.model.customers.contracts import Commitment
from meterlake.stages.bill.pricing.applicable_pricing import PlanTerms
from meterlake.stages.bill.terms.terms import AccountTerms, BillingTerms

# The bills on which account plans stand, by the ids of these.
BilledPlans = Mapping[str, Sequence[BilledTime]]


def without_bill(terms: BillingTerms, told: Collection[str]) -> Iterator[NoBill]:
    """Say of accounts on a plan why they have no bill of the month, in the order of their codes.

    Args:
        terms: What holds in the month.
        told: The ids of the accounts that have a bill, or a failure instead.
    """
    for account_terms in sorted(
        terms.account_terms_of.values(), key=lambda each: each.account.entity.code
    ):
        account = account_terms.account
        has_plan = account_terms.plan_periods or account_terms.without_periods
        if has_plan and account.id not in told:
            yield NoBill(account.id, account.entity.code, _reason(terms, account_terms))


def fees_on_no_bill(terms: BillingTerms) -> Iterator[NoBill]:
    """Say of accounts that a commitment has no fee, since its billing plan has no billing periods.

    Such a commitment is refused when it is saved; one that was stored before stays.
    """
    for account_terms in terms.account_terms_of.values():
        account = account_terms.account
        for commitment in terms.configuration.where(Commitment, "account_id", account.id):
            plan_id = commitment.entity.billing_plan_id
            plan = plan_id and terms.catalog.terms(plan_id, terms.period)
            if plan and not plan.has_periods:
                reason = f"its commitment {commitment.id} has no fees: {describe_no_periods(plan)}"
                yield NoBill(account.id, account.entity.code, reason)


def _reason(terms: BillingTerms, account_terms: AccountTerms) -> str:
    if account_terms.bills:
        return "nothing is charged, and empty bills are suppressed"
    if not account_terms.plan_periods:
        return describe_no_periods(account_terms.without_periods[0].terms)
    billed_id = billed_account_id(
        account_terms.plan_periods[0].account_plan.entity, terms.configuration
    )
    if billed_id != account_terms.account.id:
        billed = terms.configuration.get(Account, billed_id).entity
        return f"its plan is billed to its parent {billed.code!r}"
    plans = (each.account_plan.entity for each in account_terms.plan_periods)
    days = [day for day in map(terms.calendar.next_bill_date, plans) if day is not None]
    if not days:
        return "none of its plans has the frequency and the interval of these bills"
    return f"its next bill is of {min(days)}"


def describe_no_periods(terms: PlanTerms) -> str:
    """Why a plan makes no bill."""
    code, frequency = terms.plan.entity.code, terms.bill_frequency.value
    return f"the plan {code!r} of the frequency {frequency} has no billing periods"


def refuse_overlaps(terms: BillingTerms, billed: BilledPlans) -> BillingTerms:
    """Refuse the bills of accounts whose plans were billed for a part of the same time."""
    found = {
        id_: _refuse(account_terms, billed) for id_, account_terms in terms.account_terms_of.items()
    }
    return replace(terms, account_terms_of=found)


def _refuse(account_terms: AccountTerms, billed: BilledPlans) -> AccountTerms:
    overlaps: list[str] = []
    for bill in account_terms.bills:
        for plan_period in bill.plan_periods:
            for other in billed.get(plan_period.account_plan.id, ()):
                shared = bill.period.intersection(other.period.start, other.period.end)
                if shared is not None and other.period != bill.period:
                    overlaps.append(
                        f"its plan {plan_period.terms.plan.entity.code!r} was billed for a part of"
                        f" the time until {bill.key.bill_date}, on its bill of {other.bill_date}"
                    )
    reasons = tuple(dict.fromkeys(overlaps))
    if not reasons:
        return account_terms
    blockers = (*account_terms.billing_blockers, *reasons)
    return replace(account_terms, bills=(), charges=(), billing_blockers=blockers)
