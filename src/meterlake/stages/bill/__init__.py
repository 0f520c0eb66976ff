"""The bills of a month from configuration and quantities, without a store.

`billing_terms` says what holds for whom and which quantities are needed, `make_bills` makes the
bills of them, `unpriced_usage` reports what is on none. Between the first and the others somebody
aggregates the measurements.

The rooms, each of which uses those below it: `charges` drafts lines, `terms` says what stands on
which bill, `credits` what pays for it, `pricing` what it costs, `periods` when it is due.
"""

from meterlake.stages.bill.bills import BillMaker, Provenance, billing_terms, make_bills
from meterlake.stages.bill.credits.credit_sources import (
    AccountLedger,
    LineCredit,
    LineCredits,
    Movements,
)
from meterlake.stages.bill.input_digests import InputDigests
from meterlake.stages.bill.periods.due_periods import (
    BillIdentity,
    BillingCalendar,
    months_billed_with,
)
from meterlake.stages.bill.periods.selection import (
    BillOverrides,
    BillSelection,
    ChosenBill,
    select_again,
    selections_of,
)
from meterlake.stages.bill.terms.no_bill import fees_on_no_bill, without_bill
from meterlake.stages.bill.terms.terms import AccountTerms, BillingTerms
from meterlake.stages.bill.terms.usage_windows import unpriced_usage

__all__ = [
    "AccountLedger",
    "AccountTerms",
    "BillIdentity",
    "BillMaker",
    "BillOverrides",
    "BillSelection",
    "BillingCalendar",
    "BillingTerms",
    "ChosenBill",
    "InputDigests",
    "LineCredit",
    "LineCredits",
    "Movements",
    "Provenance",
    "billing_terms",
    "fees_on_no_bill",
    "make_bills",
    "months_billed_with",
    "select_again",
    "selections_of",
    "unpriced_usage",
    "without_bill",
]
