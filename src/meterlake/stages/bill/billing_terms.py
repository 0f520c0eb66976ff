"""All that the bills of a run depend on, but the measurements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.values.entity import Configuration, Record
from meterlake.stages.bill.charges.line_draft import BillInputs
from meterlake.stages.bill.lines import has_lines_in_advance
from meterlake.stages.bill.periods.due_periods import BillingCalendar
from meterlake.stages.bill.periods.selection import BillSelection
from meterlake.stages.bill.pricing.applicable_pricing import PlanCatalog, priced_parts
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stages.bill.terms.advance_lines import NO_MEMOS, AdvanceMemo
from meterlake.stages.bill.terms.terms import BillingTerms, DueBill
from meterlake.stages.bill.terms.terms_finder import TermsFinder
from meterlake.stages.bill.terms.usage_windows import find_usage_owners, find_windows


def billing_terms(
    configuration: Configuration,
    selection: BillSelection,
    memos: Mapping[str, Sequence[AdvanceMemo]] = NO_MEMOS,
) -> BillingTerms:
    """Find out what holds where bills are due.

    Args:
        configuration: All of an organization's entities.
        selection: Which bills the run makes.
        memos: By the ids of accounts, what corrects lines of locked bills.

    Raises:
        Invalid: The days are too close to an end of the calendar.
    """
    calendar, account_ids = selection.calendar(configuration), selection.account_ids
    configuration = calendar.configuration
    catalog = PlanCatalog(configuration)
    opening = _OpeningBills(calendar, catalog, selection.overrides.currency)
    terms = TermsFinder(calendar, selection, catalog, opening.has_lines, memos)
    account_terms_of = {
        account.id: terms.account_terms(account)
        for account in configuration.all(Account)
        if account_ids is None or account.id in account_ids
    }
    return BillingTerms(
        configuration=configuration,
        organization=configuration.single(OrganizationConfig),
        calendar=calendar,
        selection=selection,
        currencies=terms.currencies,
        catalog=terms.plans,
        account_terms_of=account_terms_of,
        restricted=account_ids is not None,
        priced=priced_parts(configuration),
        windows=find_windows(account_terms_of, terms.calendar.period),
        usage_owners=find_usage_owners(account_terms_of.values()),
    )


@dataclass(frozen=True, slots=True)
class _OpeningBills:
    """The bills of days on which plans begin, which are due if anything is in advance.

    Attributes:
        currency: In which all bills of the run are made; None if accounts decide.
    """

    calendar: BillingCalendar
    catalog: PlanCatalog
    currency: str | None

    def has_lines(self, account: Record[Account], bill: DueBill) -> bool:
        """Whether anything stands on a bill before any usage."""
        calendar = self.calendar
        inputs = BillInputs(
            configuration=calendar.configuration,
            catalog=self.catalog,
            zone=calendar.zone,
            snapshot=0,
            currencies=Currencies.of(calendar.configuration, calendar.organization),
            quantities={},
            missing={},
            left_out={},
        )
        own = account.entity.currency or calendar.organization.currency
        return has_lines_in_advance(bill, self.currency or own, inputs)
