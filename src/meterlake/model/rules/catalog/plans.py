"""Rules of plans."""

from typing import Any

from meterlake.model.catalog.pricing import Plan
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed
from meterlake.model.scopes.products import product_of_plan
from meterlake.model.values.entity import Configuration, Record


def plan_product(record: Record[Plan], configuration: Configuration) -> dict[str, Any]:
    """The product of a plan: its template's."""
    return {"productId": product_of_plan(record.entity, configuration)}


def bespoke_account_stays(new: Proposed[Any]) -> None:
    """A plan or plan group made for one account is not moved to another."""
    before = new.before.account_id if new.before else None
    if before is not None and new.entity.account_id != before:
        kind = "plan" if isinstance(new.entity, Plan) else "plan group"
        rule = f"the {kind} was made for {before!r} and stays there; make another {kind}"
        raise Invalid("accountId", new.entity.account_id, rule)
