"""The bill that is explained: how its amounts are converted and rounded, and what its lines are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from meterlake.model.bills.explanation import ExplainedNumber
from meterlake.model.catalog.catalog import CompoundAggregation
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.values.entity import Record
from meterlake.model.values.period import Period, format_instant
from meterlake.stages.bill.bills import DraftedBill
from meterlake.stages.bill.charges.line_draft import BillDraft, BillInputs, FinishedLine, LineDraft
from meterlake.stages.bill.charges.overage_charges import CutUsage
from meterlake.stages.bill.explain.numbers import cite, multiply, refer, refer_by_key, round_to

# By a compound aggregation, and the account and the period that it is calculated for.
CompoundFields = Callable[[Record[CompoundAggregation], tuple[str, Period]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ExplainedBill:
    """A bill while it is explained.

    Attributes:
        made: What it was made from.
        fields: The custom fields that compound aggregations were calculated with.
        known: The numbers that are explained already, by their keys.
        drafts: The drafts of other bills that count for it, in the order in which they were met.
        is_own_rate: Whether the job that made it had rates of its own.
    """

    made: DraftedBill
    fields: CompoundFields = lambda _, __: {}
    known: dict[str, ExplainedNumber] = field(default_factory=dict)
    is_own_rate: bool = False
    drafts: list[LineDraft] = field(default_factory=list)

    @property
    def draft(self) -> BillDraft:
        """The bill as it was drafted."""
        return self.made.draft

    @property
    def inputs(self) -> BillInputs:
        """What it has in common with the other bills of its run."""
        return self.draft.inputs

    @property
    def currency(self) -> str:
        """The billing currency."""
        return self.draft.currency

    @property
    def places(self) -> int:
        """Decimals of the billing currency."""
        return self.inputs.currencies.rounding(self.currency)[0]

    def explain_once(self, key: str, explain: Callable[[], ExplainedNumber]) -> ExplainedNumber:
        """A number where it is met first, and a reference to it after that."""
        if key in self.known:
            return refer(self.known[key])
        found = explain()
        assert found.key == key, (found.key, key)
        self.known[key] = found
        return found

    def draft_key(self, drafted: LineDraft) -> str:
        """The key of what stands on another bill."""
        found = next((n for n, each in enumerate(self.drafts) if each is drafted), None)
        if found is None:
            found = len(self.drafts)
            self.drafts.append(drafted)
        return f"elsewhere {found + 1}"

    def lines(self) -> dict[int, FinishedLine]:
        """The lines as they stood before any was cut, by the identity of their drafts."""
        found = [
            each.draft.basis.before if isinstance(each.draft.basis, CutUsage) else each
            for each in self.draft.lines
        ]
        return {id(each.draft): each for each in found}

    def lines_by_number(self) -> dict[int, FinishedLine]:
        """The same by the numbers that they had when they were made."""
        return {each.line.sequence_number: each for each in self.lines().values()}

    def refer_line(self, drafted: LineDraft) -> ExplainedNumber | None:
        """A reference to a line of the bill; None if it is on another one."""
        found = self.lines().get(id(drafted))
        return None if found is None else refer_to(found, self.currency)

    def convert(self, found: ExplainedNumber, source: str) -> ExplainedNumber:
        """An amount in the billing currency, not rounded."""
        if source == self.currency:
            return found
        conversion = self.inputs.currencies.conversion(source, self.currency)
        record = self.inputs.configuration.single(OrganizationConfig)
        facts = {
            "from": source,
            "to": self.currency,
            "setBy": "the job" if self.is_own_rate else "the organization",
            "version": None if self.is_own_rate else record.version,
            "since": None if self.is_own_rate else format_instant(record.modified),
        }
        rate = cite("conversion rate", conversion.rate, f"{self.currency}/{source}", **facts)
        return multiply("converted", found, rate, unit=self.currency)

    def finish(self, name: str, found: ExplainedNumber, source: str) -> ExplainedNumber:
        """An amount as it stands on the bill: converted, and rounded once."""
        rounding = self.inputs.currencies.rounding(self.currency)
        return round_to(name, self.convert(found, source), rounding, self.currency)


def refer_to(finished: FinishedLine, currency: str) -> ExplainedNumber:
    """A reference to a line as it stood before it was cut."""
    line = finished.line
    name = f"{line.type} {line.description}"
    return refer_by_key(
        name, finished.amount, currency, line_key(finished), line=line.sequence_number
    )


def line_key(finished: FinishedLine) -> str:
    """The key of the number of a line."""
    return f"line {finished.line.key}"


def entity_facts(record: Record[Any]) -> dict[str, Any]:
    """What identifies a version of an entity."""
    entity = record.entity
    name = getattr(entity, "code", None) or getattr(entity, "name", None)
    found = {"kind": type(entity).__name__, "id": record.id, "version": record.version}
    return found if name is None else found | {"code": name}


def period_facts(period: Period) -> dict[str, str]:
    """A time as people and programs read it."""
    return {"start": format_instant(period.start), "end": format_instant(period.end)}


def pricing_facts(record: Record[Any]) -> dict[str, Any]:
    """Which version of a pricing it is, and when it is in effect."""
    pricing = record.entity
    end = pricing.end_date
    return {
        "pricing": entity_facts(record),
        "pricingFrom": format_instant(pricing.start_date),
        "pricingUntil": None if end is None else format_instant(end),
        "of": "planTemplate" if pricing.plan_id is None else "plan",
    }
