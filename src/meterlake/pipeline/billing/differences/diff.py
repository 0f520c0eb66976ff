"""The verb `bill diff`: two contents of a bill, and by which changes they differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from meterlake.model.bills.differences import (
    BillDiff,
    CauseKind,
    ComparedContent,
    DifferenceCause,
    DifferencePart,
    LineChange,
    SharedAmount,
)
from meterlake.model.errors import Conflict
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.version import code_version
from meterlake.pipeline.billing.differences.calculations import (
    CalculationInputs,
    CannotCalculate,
    CombinedCalculation,
    figures_of,
)
from meterlake.pipeline.billing.differences.changes import (
    ChangeFinder,
    InputChange,
    read_account_entities,
)
from meterlake.pipeline.billing.differences.compared_contents import (
    ComparedEnd,
    DiffChoice,
    read_ends,
)
from meterlake.pipeline.usage.meter_rollup import MeterSource
from meterlake.stages.bill.attribution import (
    AttributedStep,
    BillFigures,
    attribute,
    changed_header,
    changed_lines,
)
from meterlake.stores import Organization
from meterlake.stores.lake.measurements.changes import (
    SnapshotPair,
    find_measurement_changes,
    read_former,
)
from meterlake.stores.lake.quantity_runs import snapshot_is_kept
from meterlake.stores.state.billing.memos.memos import line_id
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey

_NO_CHOICE: Final = DiffChoice()
# A change that is not there any more, around what it did.
_Around = tuple[BillFigures, BillFigures]


def diff_bill(
    organization: Organization, bill_id: str, choice: DiffChoice = _NO_CHOICE
) -> BillDiff:
    """Find by which changes two contents of a bill differ. Nothing is stored.

    Raises:
        NotFound: There never was such a bill, or it had no such version.
        Invalid: The later version is not later.
        Conflict: One of the contents cannot be calculated again.
        Unavailable: A store failed.
    """
    before, after = read_ends(organization, bill_id, choice)
    with TemporaryDirectory(prefix="meterlake-diff-") as folder:
        return _Diff(organization, bill_id, (before, after), Path(folder)).run()


class _Diff:
    def __init__(
        self,
        organization: Organization,
        bill_id: str,
        ends: tuple[ComparedEnd, ComparedEnd],
        folder: Path,
    ) -> None:
        self.organization = organization
        self.bill_id, self.folder = bill_id, folder
        self.before, self.after = ends
        assert self.before.content is not None, bill_id
        self.key: BillKey = self.before.content.key
        self.currency = self.before.content.currency
        self.account_code = str(self.before.content.body.get("accountCode", ""))

    def run(self) -> BillDiff:
        """Apply one change after the other."""
        later = self._calculate(self.after)
        # Both contents as they are stored; what the bill would be now as it is calculated.
        before = self._figures(self.before.content)
        if self.after.content is None:
            stored = before, self._figures(later, self.after.memos)
        else:
            stored = before, self._figures(self.after.content)
        entities = tuple(
            read_account_entities(self.organization.past(each.at), self.key.account_id)
            for each in (self.before, self.after)
        )
        former_entities, later_entities = entities
        account_ids = former_entities.account_ids | later_entities.account_ids
        snapshots = SnapshotPair(self.before.snapshot, self.after.snapshot)
        with self.organization.lake.reader() as connection:
            measurements = find_measurement_changes(
                connection, snapshots, sorted(account_ids), self.folder
            )
        with self.organization.reading() as reader:
            finder = ChangeFinder(reader, self.bill_id, self.before, self.after)
            contents = filter(None, (self.before.content, later))
            used = [id_ for each in contents for id_ in each.pins.get("versions", {})]
            changes = finder.find((former_entities, later_entities), used, measurements)
        combined = CombinedCalculation(
            organization=self.organization,
            key=self.key,
            ends=(self.before, self.after),
            entities=(former_entities, later_entities),
            changes=changes,
            measurements=measurements,
            currency=self.currency,
            snapshot=self._readable(self.before.snapshot),
        )
        return self._attribute(combined, stored, self._figures(later, self.after.memos))

    def _attribute(
        self,
        combined: CombinedCalculation,
        stored: tuple[BillFigures, BillFigures],
        later: BillFigures,
    ) -> BillDiff:
        changes = combined.changes
        first = combined.figures(frozenset())
        if first is None:
            self._calculate(self.before)
            raise Conflict(
                f"version {self.before.version} of the bill cannot be calculated again;"
                " compare later versions, or make the bill again"
            )
        everything = frozenset(range(len(changes)))

        def calculate(applied: frozenset[int]) -> BillFigures | None:
            found = combined.figures(applied) if applied else first
            return later if found is None and applied == everything else found

        certain = [number for number, each in enumerate(changes) if each.is_certain]
        steps, last = attribute(len(changes), certain, calculate)
        names = [" + ".join(changes[n].cause.name for n in each.changes) for each in steps]
        parts = [part for each in steps for part in self._parts_of_step(changes, each, last, names)]
        rest = [(last, later)] if last != later else []
        made = [*self._rest(rest, (stored[0], first), (later, stored[1]))]
        return BillDiff(
            bill_id=self.bill_id,
            account_code=self.account_code,
            bill_date=self.key.bill_date,
            before=_summarize_content(self.before, stored[0]),
            after=_summarize_content(self.after, stored[1]),
            parts=[*parts, *made],
        )

    def _rest(
        self, rest: Sequence[_Around], former: _Around, later: _Around
    ) -> Iterator[DifferencePart]:
        """What other code does, and what has no cause that anybody knows."""
        ends = [(self.before, former), (self.after, later)]
        by_code = [pair for end, pair in ends if not end.is_same_code and pair[0] != pair[1]]
        unknown = [
            (
                DifferenceCause(
                    kind=CauseKind.UNKNOWN,
                    name=f"version {end.version}",
                    detail=(
                        "it is not what comes out of what it was made from:"
                        f" see `meterlake bill verify {self.bill_id}`, or `GET /bills/{self.bill_id}/verify`"
                    ),
                ),
                [pair],
            )
            for end, pair in ends
            if end.is_same_code and pair[0] != pair[1]
        ]
        if rest:
            detail = "what is left when all causes are applied that could be found"
            unknown.append(
                (DifferenceCause(kind=CauseKind.UNKNOWN, name="rest", detail=detail), list(rest))
            )
        if by_code:
            yield from self._parts(
                [
                    DifferenceCause(
                        kind=CauseKind.CODE,
                        name="code of meterlake",
                        detail=f"all other parts are calculated by {code_version()}, as it is here",
                        before=self.before.code,
                        after=self.after.code,
                    )
                ],
                by_code,
                None,
            )
        for cause, pairs in unknown:
            yield from self._parts([cause], pairs, None)

    def _parts_of_step(
        self,
        changes: Sequence[InputChange],
        step: AttributedStep,
        last: BillFigures,
        names: Sequence[str],
    ) -> Iterator[DifferencePart]:
        causes = [changes[number].cause for number in step.changes]
        without = None if step.without is None else (step.without, last)
        around = [step.before, step.after, *(without or ())]
        # Amounts of several currencies are no sums.
        shares = step.shares if len({each.currency for each in around}) == 1 else None
        shared = [
            SharedAmount(name=names[index], amount=amount)
            for index, amount in (shares or {}).items()
        ]
        for each in self._parts(causes, [(step.before, step.after)], without):
            yield replace(each, shared=shared)

    def _parts(
        self,
        causes: Sequence[DifferenceCause],
        pairs: Sequence[_Around],
        without: _Around | None,
    ) -> Iterator[DifferencePart]:
        """One part for each currency that the causes touch."""
        around = [*pairs, *([without] if without else [])]
        figures = [each for pair in around for each in pair if each.currency]
        currencies = list(dict.fromkeys(each.currency for each in figures)) or [""]
        parts = [self._part(causes, pairs, without, each) for each in currencies]
        touched = [each for each in parts if each.lines or each.amount or each.if_undone]
        yield from touched or parts[:1]

    def _part(
        self,
        causes: Sequence[DifferenceCause],
        pairs: Sequence[_Around],
        without: _Around | None,
        currency: str,
    ) -> DifferencePart:
        lines = [each for pair in pairs for each in self._lines(*pair, currency)]
        with exact():
            amount = sum((_difference(*pair, currency) for pair in pairs), ZERO)
        return DifferencePart(
            causes=causes,
            currency=currency,
            amount=amount,
            if_undone=None if without is None else _difference(*without, currency),
            lines=lines,
            header=list(dict.fromkeys(name for pair in pairs for name in changed_header(*pair))),
        )

    def _lines(
        self, before: BillFigures, after: BillFigures, currency: str
    ) -> Iterator[LineChange]:
        for key in changed_lines(before, after):
            amounts = [
                each.amount(key) if each.currency in {currency, ""} else None
                for each in (before, after)
            ]
            shown = after.lines.get(key) or before.lines[key]
            if amounts != [None, None]:
                yield LineChange(
                    line_id=line_id(self.bill_id, key),
                    type=str(shown["lineItemType"]),
                    description=str(shown.get("description", "")),
                    before=amounts[0],
                    after=amounts[1],
                )

    def _calculate(self, end: ComparedEnd) -> BillContent | None:
        """A content calculated again from what it was made from.

        Raises:
            Conflict: That is not possible.
        """
        with self.organization.lake.reader() as connection:
            found = read_former(connection, end.snapshot)
        former = {meter_id: MeterSource(*each) for meter_id, each in (found or {}).items()}
        inputs = CalculationInputs(
            configuration=self.organization.past(end.at),
            ledger=self.organization.past(end.ledger_at),
            selection=end.selection,
            snapshot=self._readable(end.snapshot),
            instead=former,
        )
        try:
            return inputs.calculate(self.key)
        except CannotCalculate as reason:
            name = "as it would be now" if end.version is None else f"of version {end.version}"
            raise Conflict(
                f"the bill {name} cannot be calculated: {reason};"
                " mend that, or compare other versions"
            ) from reason

    def _figures(
        self, content: BillContent | None, memos: Mapping[str, Mapping[str, Any]] | None = None
    ) -> BillFigures:
        return figures_of(content, self.currency, memos)

    def _readable(self, snapshot: int) -> int:
        """The snapshot; if it is not kept, one that is: its tables are read otherwise then."""
        lake = self.organization.lake
        with lake.reader() as connection:
            return snapshot if snapshot_is_kept(connection, snapshot) else lake.snapshot()


def _difference(before: BillFigures, after: BillFigures, currency: str) -> Decimal:
    """By how much a bill changes in a currency."""
    amounts = [each.total if each.currency == currency else ZERO for each in (before, after)]
    with exact():
        return amounts[1] - amounts[0]


def _summarize_content(end: ComparedEnd, figures: BillFigures) -> ComparedContent:
    totals = {figures.currency: figures.total} if figures.currency else {}
    return ComparedContent(version=end.version, snapshot=end.snapshot, at=end.made, totals=totals)


def diff_bill_to_wire(
    organization: Organization, bill_id: str, choice: DiffChoice = _NO_CHOICE
) -> dict[str, Any]:
    """The same as plain data, as the API answers."""
    return diff_bill(organization, bill_id, choice).to_wire()
