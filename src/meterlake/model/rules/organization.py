"""Rules of the organization's settings and its currencies."""

from collections.abc import Iterable

from meterlake.model.accounts import Account
from meterlake.model.entity import Configuration
from meterlake.model.errors import Invalid
from meterlake.model.organization import Currency, OrganizationConfig
from meterlake.model.period import zone
from meterlake.model.pricing import PlanTemplate
from meterlake.model.rules.proposed import Proposed


def timezone_exists(new: Proposed[OrganizationConfig]) -> None:
    """The time zone is one that we know."""
    zone(new.entity.timezone)


def one_rate_per_pair(new: Proposed[OrganizationConfig]) -> None:
    """Two rates for the same pair of currencies would leave the bill to chance."""
    seen = set()
    for index, conversion in enumerate(new.entity.currency_conversions):
        pair = (conversion.from_, conversion.to)
        if pair in seen or conversion.from_ == conversion.to:
            text = f"{conversion.from_} to {conversion.to}"
            raise Invalid(f"currencyConversions[{index}]", text, "one rate per pair of currencies")
        seen.add(pair)


def currency_code_stays(new: Proposed[Currency]) -> None:
    """A currency that something names by its code keeps the code."""
    if new.before is None or new.before.code in {None, new.entity.code}:
        return
    for user in _users_of_currency(new.around, new.before.code):
        rule = f"{new.before.code!r} as long as {user} is in it"
        raise Invalid("code", new.entity.code, rule)


def _users_of_currency(around: Configuration, code: str | None) -> Iterable[str]:
    for config in around.all(OrganizationConfig):
        pairs = {(c.from_, c.to) for c in config.entity.currency_conversions}
        if code in {config.entity.currency, *(name for pair in pairs for name in pair)}:
            yield "the organization's configuration"
    yield from (f"account {a.entity.code!r}" for a in around.where(Account, "currency", code))
    templates = around.where(PlanTemplate, "currency", code)
    yield from (f"plan template {t.entity.name!r}" for t in templates)
