"""Bills of a job with its own periods: none covers a part of what a plan was billed for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from meterlake.model.bills.bill import BilledTime
from meterlake.stages.bill.terms.terms import AccountTerms, BillingTerms

# The bills on which account plans stand, by the ids of these.
BilledPlans = Mapping[str, Sequence[BilledTime]]


def refuse_overlaps(terms: BillingTerms, billed: BilledPlans) -> BillingTerms:
    """Refuse the bills of accounts whose plans were billed for a part of the same time."""
    found = {
        id_: _refuse(account_terms, billed) for id_, account_terms in terms.account_terms_of.items()
    }
    return replace(terms, account_terms_of=found)


def _refuse(account_terms: AccountTerms, billed: BilledPlans) -> AccountTerms:
    reasons = tuple(dict.fromkeys(_overlaps(account_terms, billed)))
    if not reasons:
        return account_terms
    blockers = (*account_terms.billing_blockers, *reasons)
    return replace(account_terms, bills=(), charges=(), billing_blockers=blockers)


def _overlaps(account_terms: AccountTerms, billed: BilledPlans) -> Iterator[str]:
    for bill in account_terms.bills:
        for plan_period in bill.plan_periods:
            for other in billed.get(plan_period.account_plan.id, ()):
                shared = bill.period.intersection(other.period.start, other.period.end)
                if shared is not None and other.period != bill.period:
                    yield (
                        f"its plan {plan_period.terms.plan.entity.code!r} was billed for a part of"
                        f" the time until {bill.key.bill_date}, on its bill of {other.bill_date}"
                    )
