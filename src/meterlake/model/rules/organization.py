"""Rules of the organization's settings, its currencies, and the custom fields that entities may carry."""

from collections.abc import Iterable
from typing import Any, Final

from pydantic.alias_generators import to_snake

from meterlake.model.configuration.organization import (
    ONCE_A_DAY,
    Currency,
    CustomFields,
    FileRhythm,
    OrganizationConfig,
    refuse_two_rates,
)
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed, display_name
from meterlake.model.values.period import zone


def custom_fields_not_in_use_stay(new: Proposed[CustomFields]) -> None:
    """A custom field that an entity carries is not taken away from its kind."""
    if new.before is None:
        return
    kinds: Iterable[type[Any]] = new.configuration.kinds()
    for kind in kinds:
        attribute = to_snake(kind.__name__)
        if "custom_fields" not in kind.model_fields or attribute not in CustomFields.model_fields:
            continue
        gone = set(getattr(new.before, attribute)) - set(getattr(new.entity, attribute))
        for record in new.configuration.all(kind) if gone else ():
            still_used = sorted(gone & set(record.entity.custom_fields))
            if still_used:
                who = f"{kind.__name__} {getattr(record.entity, 'code', None) or record.id!r}"
                raise Invalid(
                    _camel(attribute),
                    still_used[0],
                    f"{who} has it; keep it, or take it away there first",
                )


def _camel(attribute: str) -> str:
    return CustomFields.model_fields[attribute].alias or attribute


def custom_fields_known(new: Proposed[Any]) -> None:
    """A custom field exists on the organization before an entity carries it."""
    attribute = to_snake(type(new.entity).__name__)
    if not new.entity.custom_fields or attribute not in CustomFields.model_fields:
        return
    known: set[str] = set()
    for record in new.configuration.all(CustomFields):
        known |= set(getattr(record.entity, attribute))
    for name, value in new.entity.custom_fields.items():
        if name not in known:
            rule = f"customFields.{_camel(attribute)} has no such field; add it there first"
            raise Invalid(f"customFields.{name}", value, rule)


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
