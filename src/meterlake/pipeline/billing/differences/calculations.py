"""A bill calculated with some of the changes between two contents of it, and without the others."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from meterlake.model.bills.bill import Bill
from meterlake.model.bills.differences import TOTAL_MEMBER
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Unavailable
from meterlake.model.values import wire
from meterlake.pipeline.billing.calculation.failures import describe_error
from meterlake.pipeline.billing.calculation.recalculation import read_measured
from meterlake.pipeline.billing.differences.changes import AccountEntities, InputChange, rates_of
from meterlake.pipeline.billing.differences.compared_contents import ComparedEnd
from meterlake.pipeline.billing.run import content_of
from meterlake.pipeline.usage.meter_rollup import MeterSource
from meterlake.pipeline.usage.period_usage import LastUsage
from meterlake.stages.bill import BillSelection
from meterlake.stages.bill.attribution import BillFigures
from meterlake.stores import Organization
from meterlake.stores.lake.measurements.changes import MeasurementChanges
from meterlake.stores.state.billing.accounts.buckets import OWN_KINDS
from meterlake.stores.state.billing.memos.memos import KEY_PREFIX
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey, LineContent
from meterlake.stores.state.core.views.past_state import OF_MEMO, PastMoment, PastScope

# What tells where a line stands, not what it says.
_NUMBER: Final = "sequenceNumber"
_log: Final = logging.getLogger("meterlake.billing")


class CannotCalculate(Exception):
    """A bill cannot be calculated from what it was calculated from."""


@dataclass(frozen=True, slots=True)
class CalculationInputs:
    """What a bill of an account is calculated from.

    Attributes:
        configuration: The organization as its configuration is read.
        ledger: The organization as its ledger is read.
        instead: By the ids of meters, what is read in the place of their tables.
        last: Has quantities of the same measurements that were read before.
    """

    configuration: Organization
    ledger: Organization
    selection: BillSelection
    snapshot: int
    instead: Mapping[str, MeterSource]
    last: LastUsage | None = None

    def calculate(self, key: BillKey) -> BillContent | None:
        """The bill of a key, without the lines of people; None if no plan makes it.

        Raises:
            CannotCalculate: The account cannot be billed like that.
            Unavailable: A store failed.
        """
        try:
            return self._calculate(key)
        except (CannotCalculate, Unavailable, MemoryError):
            raise
        except Exception as error:  # whatever it is, it is of this combination
            raise CannotCalculate(describe_error(error)) from error

    def _calculate(self, key: BillKey) -> BillContent | None:
        source = self.configuration, self.selection, self.snapshot
        reading = replace(read_measured(*source, self.instead), last=self.last)
        for number in range(len(reading.accounts.buckets)):
            calculation = replace(reading.calculate(number), organization=self.ledger)
            for account in calculation.made(account_ids={key.account_id}):
                for each in account.refused:
                    raise CannotCalculate(each.reason)
                for made in account.made:
                    if isinstance(made, Bill) and (content := content_of(made)).key == key:
                        return content
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedCalculation:
    """Calculates a bill as it was, with any of the changes since.

    Attributes:
        ends: The former content and the later one.
        entities: What the bill may read at both.
        changes: All of them, in their order.
        measurements: What differs in the lake.
        currency: Of the former content.
        snapshot: The former one; another one if it is not kept, and no table is read there.
    """

    organization: Organization
    key: BillKey
    ends: tuple[ComparedEnd, ComparedEnd]
    entities: tuple[AccountEntities, AccountEntities]
    changes: Sequence[InputChange]
    measurements: MeasurementChanges
    currency: str
    snapshot: int
    # Of each set of labels: most changes change no measurements.
    _usages: dict[frozenset[str], LastUsage] = field(default_factory=dict)

    def figures(self, applied: frozenset[int]) -> BillFigures | None:
        """The bill with the changes of some numbers; None if it cannot be calculated like that."""
        chosen = [change for number, change in enumerate(self.changes) if number in applied]
        try:
            content = self._inputs(chosen).calculate(self.key)
        except CannotCalculate as reason:
            _log.debug("bill %s with changes %s: %s", self.key, sorted(applied), reason)
            return None
        keys = {each.memo for each in chosen if each.memo is not None}
        before, after = (each.memos for each in self.ends)
        memos = {
            key: line
            for key in dict.fromkeys((*before, *after))
            if (line := (after if key in keys else before).get(key)) is not None
        }
        return figures_of(content, self.currency, memos)

    def _inputs(self, chosen: Sequence[InputChange]) -> CalculationInputs:
        before, after = self.ends
        read = {(each.what, each.id): each for change in chosen for each in change.read}
        # A line of a person is seen for itself, whichever content of its bill is seen.
        memos = [each.memo for each in self.changes if each.memo is not None]
        known = [PastMoment(OF_MEMO, key, before.ledger_at) for key in memos]
        drawn = {(each.what, each.id): each for each in known}
        drawn |= {(each.what, each.id): each for change in chosen for each in change.drawn}
        settings = self._organization(chosen)
        if settings is not None:
            address = settings.what, settings.id
            read[address] = drawn[address] = settings
        labels = frozenset().union(*(each.labels for each in chosen))
        is_selected = any(each.is_selection for each in chosen)
        return CalculationInputs(
            configuration=self.organization.past(before.at, list(read.values()), self._scope()),
            ledger=self.organization.past(before.ledger_at, list(drawn.values()), self._scope()),
            selection=(after if is_selected else before).selection,
            snapshot=self.snapshot,
            instead={
                meter_id: MeterSource(each.with_labels(labels), each.columns)
                for meter_id, each in self.measurements.meters.items()
            },
            last=self._usages.setdefault(labels, LastUsage()),
        )

    def _scope(self) -> PastScope:
        """The account and its relatives: whatever others have takes no time."""
        keys = {key for each in self.entities for key in each.records if key[0] in OWN_KINDS}
        accounts = [each.account_ids for each in self.entities]
        return PastScope(OWN_KINDS, {id_ for _, id_ in keys}, accounts[0] | accounts[1])

    def _organization(self, chosen: Sequence[InputChange]) -> PastMoment | None:
        """The settings of the organization with some of the rates that changed."""
        pairs = {each.pair for each in chosen if each.pair is not None}
        if not any(each.pair is not None for each in self.changes):
            return None
        before, after = (each.organization for each in self.entities)
        is_later = any(
            each.what == OrganizationConfig.__name__ for change in chosen for each in change.read
        )
        base, number = (after, self.ends[1].at) if is_later else (before, self.ends[0].at)
        former, later = rates_of(before.entity), rates_of(after.entity)
        rates = [
            rate
            for pair in dict.fromkeys((*former, *later))
            if (rate := (later if pair in pairs else former).get(pair)) is not None
        ]
        entity = base.entity.model_copy(update={"currency_conversions": tuple(rates)})
        body = wire.dumps_sorted(entity.to_wire())
        return PastMoment(OrganizationConfig.__name__, base.id, number, body)


def figures_of(
    content: BillContent | None,
    currency: str,
    memos: Mapping[str, Mapping[str, Any]] | None = None,
) -> BillFigures:
    """A content as it is compared. No bill is the same as one without lines.

    Args:
        content: As it was calculated or stored; None if there is no bill.
        currency: Of a bill that there is not.
        memos: The lines of people beside it, by key; those of the content if None.
    """
    calculated = _lines_of(() if content is None else content.lines)
    if memos is not None:
        calculated = {k: v for k, v in calculated.items() if not k.startswith(KEY_PREFIX)}
    lines = {**calculated, **_lines_of(LineContent(k, v, {}) for k, v in (memos or {}).items())}
    if content is None or not lines:
        return BillFigures(currency, lines)
    header = wire.loads(wire.dumps(content.body))
    header.pop(TOTAL_MEMBER, None)
    return BillFigures(content.currency, lines, header)


def _lines_of(lines: Iterable[LineContent]) -> dict[str, dict[str, Any]]:
    """Lines as they would be read again, without their numbers."""
    found = {each.key: wire.loads(wire.dumps(each.body)) for each in lines}
    for each in found.values():
        each.pop(_NUMBER, None)
    return found
