"""Rules of the organization's settings and its currencies."""

from typing import Final

from meterlake.model.configuration.organization import (
    ONCE_A_DAY,
    Currency,
    FileRhythm,
    OrganizationConfig,
    refuse_two_rates,
)
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed, display_name
from meterlake.model.values.period import zone

# The fields in which entities name a currency by its code, but for the organization's rates.
CURRENCY_FIELDS: Final = ("currency", "currency_paid")


def timezone_exists(new: Proposed[OrganizationConfig]) -> None:
    """The time zone is one that we know."""
    zone(new.entity.timezone)


def one_rate_per_pair(new: Proposed[OrganizationConfig]) -> None:
    """Two rates for the same pair of currencies would leave the bill to chance."""
    refuse_two_rates(new.entity.currency_conversions)


def expected_files_name_their_time(new: Proposed[OrganizationConfig]) -> None:
    """The name of a file that comes again and again says of which day, or month, it is."""
    for number, each in enumerate(new.entity.expected_files):
        needed = "{date}" if each.every is FileRhythm.DAY else "{month}"
        if needed not in each.pattern:
            rule = f"a file of each {each.every.lower()} has {needed} in its name; add it"
            raise Invalid(f"expectedFiles[{number}].pattern", each.pattern, rule)


def hour_of_daily_bills(new: Proposed[OrganizationConfig]) -> None:
    """Only bills that are made once a day are made at an hour."""
    config = new.entity
    if config.scheduled_bill_offset is None:
        return
    if config.scheduled_bill_interval != ONCE_A_DAY:
        rule = (
            f"only bills that are made once a day have an hour; leave it out, or set"
            f" scheduledBillInterval to {ONCE_A_DAY}"
        )
        raise Invalid("scheduledBillOffset", config.scheduled_bill_offset, rule)


def grace_period_has_a_unit(new: Proposed[OrganizationConfig]) -> None:
    """A grace period is a number of something."""
    period, unit = (
        new.entity.auto_approve_bills_grace_period,
        new.entity.auto_approve_bills_grace_period_unit,
    )
    if period is not None and unit is None:
        rule = "autoApproveBillsGracePeriod needs a unit; give it, or leave the period out"
        raise Invalid("autoApproveBillsGracePeriodUnit", None, rule)


def currency_code_stays(new: Proposed[Currency]) -> None:
    """A currency that something names by its code keeps the code."""
    before = new.before.code if new.before else None
    if before is None or before == new.entity.code:
        return
    users_of_currency: list[str] = []
    for config in new.configuration.all(OrganizationConfig):
        rates = config.entity.currency_conversions
        if before in {config.entity.currency, *(r.from_ for r in rates), *(r.to for r in rates)}:
            users_of_currency.append("the organization's configuration")
    for kind in new.configuration.kinds():
        for field in CURRENCY_FIELDS:
            if field in kind.model_fields:
                users_of_currency += (
                    display_name(record) for record in new.configuration.where(kind, field, before)
                )
    for user in users_of_currency:
        rule = f"{user} is in {before!r}; keep that, or change what is in it first"
        raise Invalid("code", new.entity.code, rule)
