"""What has to hold of the request of a bill job beyond the form of its fields."""

from datetime import date
from typing import Final

from meterlake.model.bills.jobs import BillJobRequest
from meterlake.model.configuration.organization import refuse_two_rates
from meterlake.model.errors import Invalid, Required
from meterlake.model.values.period import zone

# A period of any length around such a day lies within the calendar, in every time zone.
_FIRST, _LAST = date(1000, 1, 1), date(9000, 1, 1)
_DATES: Final = {
    "lastDateInBillingPeriod": "last_date_in_billing_period",
    "billDate": "bill_date",
}


def check_bill_request(request: BillJobRequest) -> None:
    """Check what of a request needs no configuration.

    Raises:
        Invalid: The dates contradict each other or are too far away, a pair of currencies has two
            rates, or there is no such time zone.
    """
    for name, field in _DATES.items():
        day = getattr(request, field)
        if day is not None and not _FIRST <= day < _LAST:
            raise Invalid(name, str(day), f"it must be a day from {_FIRST} to {_LAST}")
    last = request.last_date_in_billing_period
    if request.bill_date is not None and last is not None and request.days.first != last:  # type: ignore[union-attr]
        rule = f"it is not the day after lastDateInBillingPeriod {last}; give only one of both"
        raise Invalid("billDate", str(request.bill_date), rule)
    refuse_two_rates(request.currency_conversions or ())
    if request.timezone is not None:
        zone(request.timezone)


def check_preview(request: BillJobRequest) -> None:
    """Check that a request means one bill of one account.

    Raises:
        Invalid: It names another number of accounts.
        Required: It leaves open which bill is meant.
    """
    if request.billing_frequency is None:
        raise Required("billingFrequency")
    if request.bill_frequency_interval is None:
        raise Required("billFrequencyInterval")
    if request.account_ids is None:
        raise Required("accountIds")
    if len(set(request.account_ids)) != 1:
        raise Invalid("accountIds", list(request.account_ids), "give exactly one account")
