"""Changed prices: what they do to bills, and the price that follows one with other bands."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from meterlake.model.bills.what_if import NAMED_MAX, AmountTotal, Mover, Movers
from meterlake.model.catalog.plans import PriceChange, PriceChangePreview, PriceScale, Pricing
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.resources.proposal import Document
from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.model.values.period import Month, local_date, zone
from meterlake.model.values.problems import read
from meterlake.pipeline.billing.what_if.comparison import WhatIfChoice, compare_history
from meterlake.pipeline.config.change_proposals import plan_open_proposal
from meterlake.pipeline.config.entities import (
    create_in,
    entity_document,
    single,
    update_in,
    version_of,
)
from meterlake.pipeline.config.scale_prices import propose_prices
from meterlake.stages.config.price_changes import as_if_begun, changed_prices
from meterlake.stages.config.scale_prices import following_code, require_active
from meterlake.stores import Organization

Answer = dict[str, Any]
_PLACE: Final = "pricing"


def preview_price_change(organization: Organization, id: str, document: Any) -> Answer:
    """What bills of months would come to if a price had had other bands since it began.

    Raises:
        NotFound: There is no such price or account.
        Invalid: A field breaks a rule, or the bands do.
    """
    asked = read(PriceChangePreview, document)
    with organization.reading() as reader:
        entity = reader.get(Pricing, id).entity
    changed = entity.model_copy(update={"pricing_bands": asked.pricing_bands})
    content = {"pricings": [{"id": id, **wire.loads(wire.dumps(changed.to_wire()))}]}
    choice = WhatIfChoice(
        Month.parse(asked.first_month),
        Month.parse(asked.last_month),
        [Document(_PLACE, content)],
        accounts=asked.account_ids or None,
        by_month=True,
    )
    return _effect(organization, choice)


def proposal_effect(organization: Organization, id: str) -> Answer:
    """What a proposal would do to the bills of last month and this one; nothing is stored.

    Prices that follow others are calculated as if they had held since these began.

    Raises:
        NotFound: There is no such proposal.
        Conflict: It is not open.
        Invalid: It breaks a rule now.
    """
    plan = plan_open_proposal(organization, id)
    documents = as_if_begun(plan.proposals, changed_prices(plan.before, plan.proposals))
    tz = zone(single(organization, OrganizationConfig).timezone)
    today = local_date(organization.now(), tz)
    this = Month(today.year, today.month)
    choice = WhatIfChoice(this.moved(-1), this, documents, by_month=True)
    return _effect(organization, choice)


def _effect(organization: Organization, choice: WhatIfChoice) -> Answer:
    """The bills of months before and after: by month, by customer, and what differs of each."""
    months: dict[tuple[str, str], AmountTotal] = defaultdict(AmountTotal)
    accounts: dict[tuple[str, str, str], AmountTotal] = defaultdict(AmountTotal)
    named: list[Answer] = []
    with compare_history(organization, choice) as found:
        for change in found.changes():
            key = change.key
            months[key.month, key.currency] = months[key.month, key.currency].plus(change)
            of = key.account, key.currency, key.month
            accounts[of] = accounts[of].plus(change)
            if change.difference and len(named) < NAMED_MAX:
                named.append(change.to_wire())
        moved = {of: total for of, total in accounts.items() if total.difference}
        return {
            **found.summary.to_wire(),
            "byMonth": _month_rows(months),
            "customersChanged": len({account for account, _, _ in moved}),
            "byCustomer": _customer_rows(moved),
            "changes": named,
        }


def _customer_rows(moved: Mapping[tuple[str, str, str], AmountTotal]) -> list[Answer]:
    """The customers whose bills differ, by month: those that move most first."""
    order = sorted(moved.items(), key=lambda each: (-abs(each[1].difference), each[0]))
    return [
        {"account": account, "currency": currency, "month": month, **_total(total)}
        for (account, currency, month), total in order[:NAMED_MAX]
    ]


def _month_rows(months: Mapping[tuple[str, str], AmountTotal]) -> list[Answer]:
    return [
        {"month": month, "currency": currency, **_total(total)}
        for (month, currency), total in sorted(months.items())
    ]


def _total(total: AmountTotal) -> Answer:
    return {"before": total.before, "after": total.after, "difference": total.difference}


def replace_pricing(organization: Organization, author: str, id: str, document: Any) -> Answer:
    """End a price at an instant, and begin one with other bands then; both or none.

    A price that begins at that instant gets the bands itself.

    Raises:
        NotFound: There is no such price.
        Invalid: A rule is broken, or the price does not hold at the instant.
        StaleVersion: `version` is not the stored one: somebody changed the price meanwhile.
    """
    version = version_of(document)
    change = read(PriceChange, {k: v for k, v in document.items() if k != "version"})
    tz = zone(single(organization, OrganizationConfig).timezone)
    bands = {"pricing_bands": change.pricing_bands}
    with organization.transaction(author) as transaction:
        before = transaction.get(Pricing, id)
        require_active(before.entity, change.start_date)
        stores = organization.stores
        if before.entity.start_date == change.start_date:
            changed = before.entity.model_copy(update=bands)
            record = update_in(transaction, stores, before, version, changed)
            return {"originalPricing": None, "newPricing": entity_document(record, transaction)}
        ended = before.entity.model_copy(update={"end_date": change.start_date})
        original = update_in(transaction, stores, before, version, ended)
        code = following_code(before.entity.code, local_date(change.start_date, tz))
        new = before.entity.model_copy(
            update={**bands, "start_date": change.start_date, "code": code}
        )
        made = create_in(transaction, stores, new)
        return {
            "originalPricing": entity_document(original, transaction),
            "newPricing": entity_document(made, transaction),
        }


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
