"""What changed prices would do to the bills of a month, as if they had held since it began."""

from typing import Any

from meterlake.model.bills.what_if import Mover, Movers
from meterlake.model.configuration.price_scales import PriceScale
from meterlake.model.values.money import plain
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.what_if.comparison import WhatIfChoice, compare_history
from meterlake.pipeline.config.scale_prices import propose_prices
from meterlake.stores import Organization


def price_effect(organization: Organization, scale: PriceScale, month: Month) -> dict[str, Any]:
    """The totals of a month's bills before and after, and who pays more; nothing is stored.

    Raises:
        Invalid: A plan does not exist, or the new prices break a rule.
    """
    held = scale.model_copy(update={"start": month.first})
    documents = propose_prices(organization, held).documents()
    movers = Movers()
    with compare_history(organization, WhatIfChoice(month, month, documents)) as found:
        for change in found.changes():
            movers.note(change)
        return {
            **found.summary.to_wire(),
            "movers": {
                currency: {
                    "more": each.more,
                    "less": each.less,
                    "same": each.same,
                    "rising": [_mover(each) for each in each.rising],
                    "falling": [_mover(each) for each in each.falling],
                }
                for currency, each in movers.by_currency().items()
            },
        }


def _mover(found: Mover) -> dict[str, str]:
    return {
        "account": found.account,
        **found.total.to_wire(),
        "difference": plain(found.difference),
    }
