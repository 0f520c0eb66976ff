"""What a staged backfill would do to bills, line type by line type, before it is applied."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Conflict, Invalid
from meterlake.model.values.period import Month
from meterlake.pipeline.backfill.difference import changed_sources
from meterlake.pipeline.backfill.impact import affected_months, with_parents
from meterlake.pipeline.backfill.lifecycle import open_staged
from meterlake.pipeline.backfill.priced import World
from meterlake.pipeline.billing.what_if import WhatIf, WhatIfChoice, compare_history
from meterlake.stages.bill import months_billed_with
from meterlake.stores import Organization


class BackfillChoice(NamedTuple):
    """What is compared of a backfill.

    Attributes:
        id: That of the backfill.
        months: The first and the last one; those that it touches if None.
        accounts: Only these accounts, by code or id; those that it touches if None.
        by_month: Whether amounts are added up by month, too.
    """

    id: str
    months: tuple[Month, Month] | None = None
    accounts: Sequence[str] | None = None
    by_month: bool = False


@contextmanager
def compare_backfill(organization: Organization, choice: BackfillChoice) -> Iterator[WhatIf]:
    """Calculate bills of the lake as it is, and as it would be with a staged backfill.

    Raises:
        NotFound: There is no such backfill or account.
        Conflict: It is not staged, changes no measurements, or is out of date.
        Invalid: The months are none.
        Busy: Another process works on it.
        Unavailable: A store failed.
    """
    with open_staged(organization, choice.id) as (backfill, changes):
        if not changes:
            raise Conflict(
                f"backfill {choice.id!r} changes no measurements, so that bills stay as they are;"
                " choose a backfill that changes some"
            )
        configuration = organization.configuration()
        world = World(organization, configuration, backfill.snapshot)
        # The months of the bills that may come out otherwise, and the accounts in each.
        months_of = {month: set(ids) for month, ids in affected_months(world, changes).items()}
        accounts = {id_ for ids in months_of.values() for id_ in ids}
        # What holds until the next value is measured differs in later months, too.
        for name in backfill.summary.get("months", ()):
            with suppress(Invalid):
                months_of.setdefault(Month.parse(name), set()).update(accounts)
        touched = months_billed_with(world.configuration, months_of)
        months = choice.months or (min(touched), max(touched))
        known = {each.id for each in world.configuration.all(Account)}
        ids = {id_ for found in touched.values() for id_ in found if id_ in known}
        chosen = WhatIfChoice(
            *months,
            accounts=choice.accounts or sorted(with_parents(world.configuration, sorted(ids))),
            instead=changed_sources(world, changes),
            snapshot=backfill.snapshot,
            by_month=choice.by_month,
        )
        with compare_history(organization, chosen) as found:
            found.summary.backfill = backfill.id
            yield found
