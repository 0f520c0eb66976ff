"""What changed between two contents of a bill, one change for each thing that can be undone.

Begins with the entities that a bill of an account may read, and the order in which they change.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, Final

from meterlake.model.bills.differences import CauseKind, DifferenceCause
from meterlake.model.configuration.organization import CurrencyConversion, OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.contracts import Commitment
from meterlake.model.resources import BY_KIND, code_or_name
from meterlake.model.values.entity import Record
from meterlake.model.values.money import plain
from meterlake.model.values.plurals import counted
from meterlake.pipeline.billing.differences.causes import (
    describe_bill,
    describe_change,
    describe_credits,
    describe_measurements,
    describe_memo,
)
from meterlake.pipeline.billing.differences.compared_contents import ComparedEnd
from meterlake.stores import Organization
from meterlake.stores.lake.measurements.changes import MeasurementChanges
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.accounts.buckets import read_account_buckets
from meterlake.stores.state.billing.bills.changes import (
    changed_bills_between,
    gone_memos,
    memo_authors,
    postings_between,
)
from meterlake.stores.state.core.reader import record_of
from meterlake.stores.state.core.views.past_state import OF_BILL, OF_MEMO, OF_SOURCE, PastMoment

Pair = tuple[str, str]
EntityKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AccountEntities:
    """The entities that a bill of an account may read, at a moment.

    Attributes:
        records: By kind and id.
        account_ids: The account and its relatives.
    """

    records: Mapping[EntityKey, Record[Any]]
    account_ids: frozenset[str]

    @property
    def source_ids(self) -> set[str]:
        """The balances and commitments."""
        kinds = {Balance.__name__, Commitment.__name__}
        return {id_ for kind, id_ in self.records if kind in kinds}

    @property
    def organization(self) -> Record[OrganizationConfig]:
        """The settings of the organization."""
        kind = OrganizationConfig.__name__
        return next(each for (name, _), each in self.records.items() if name == kind)

    def rank(self, key: EntityKey) -> tuple[int, datetime, str]:
        """What sorts entities: those that others refer to first, then as they were created."""
        kind, id_ = key
        return _kinds_in_order()[kind], self.records[key].created, id_


def read_account_entities(organization: Organization, account_id: str) -> AccountEntities:
    """What a bill of an account may read, as the stores show it."""
    with organization.reading() as reader:
        found = read_account_buckets(reader, {account_id}, 1)
    own = [record_of(row) for row in found.buckets[0].rows]  # type: ignore[arg-type]
    records = {
        (type(each.entity).__name__, each.id): each
        for each in (*found.shared, *own)
        if BY_KIND[type(each.entity).__name__].area == "config"
    }
    accounts = {id_ for kind, id_ in records if kind == Account.__name__}
    return AccountEntities(records, frozenset({*accounts, account_id}))


def rates_of(organization: OrganizationConfig) -> dict[Pair, CurrencyConversion]:
    """The rates of an organization by pairs of currencies."""
    return {(each.from_, each.to): each for each in organization.currency_conversions}


@cache
def _kinds_in_order() -> Mapping[str, int]:
    """The kinds of entities, each after those that it refers to.

    `in_order` has unrelated kinds in another order. This one decides which of two changes of a bill
    counts for what, so it stays.
    """
    order: dict[str, int] = {}
    open_kinds: set[str] = set()

    def visit(kind: str) -> None:
        if kind in order or kind in open_kinds:
            return
        open_kinds.add(kind)
        resource = BY_KIND[kind]
        for target in (*resource.refs.values(), *resource.codes.values()):
            visit(target.__name__)
        order[kind] = len(order)

    for each in BY_KIND:
        visit(each)
    return order


# Sources whose changes are applied singly; those with fewer measurements are one change.
SOURCES_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class InputChange:
    """One change, and what has to be read otherwise for it.

    Attributes:
        cause: What it is called.
        is_certain: Whether the bill is sure to read it; others are looked at together first.
        read: What the configuration has at the later moment.
        drawn: What the ledger has at the later moment.
        labels: Of the lake's measurements.
        pair: Of currencies whose rate changed.
        memo: The key of a line of people.
        is_selection: Whether it is what the job said.
    """

    cause: DifferenceCause
    is_certain: bool = True
    read: tuple[PastMoment, ...] = ()
    drawn: tuple[PastMoment, ...] = ()
    labels: frozenset[str] = frozenset()
    pair: Pair | None = None
    memo: str | None = None
    is_selection: bool = False


class ChangeFinder:
    """Finds what changed between two contents, in the order in which changes are applied."""

    def __init__(
        self, reader: Reader, bill_id: str, before: ComparedEnd, after: ComparedEnd
    ) -> None:
        """Begin.

        Args:
            reader: The organization as it is now.
            bill_id: The bill.
            before: The former content.
            after: The later one.
        """
        self.reader = reader
        self.bill_id = bill_id
        self.before = before
        self.after = after

    def find(
        self,
        entities: tuple[AccountEntities, AccountEntities],
        used: Iterable[str],
        measurements: MeasurementChanges,
    ) -> list[InputChange]:
        """All changes.

        Args:
            entities: Those of both contents.
            used: The ids of the entities that one of them pins.
            measurements: What differs in the lake.
        """
        former, later = entities
        return [
            *_usage_changes(measurements),
            *self._entity_changes(former, later, frozenset(used)),
            *_rate_changes(former.organization, later.organization),
            *_corrections(measurements),
            *self._bill_changes(former.account_ids | later.account_ids),
            *self._credit_changes(former, later),
            *self._memo_changes(),
            *self._selection_changes(),
        ]

    def _entity_changes(
        self, former: AccountEntities, later: AccountEntities, used: frozenset[str]
    ) -> Iterator[InputChange]:
        """One for each entity: what others refer to first, deletions last and the other way."""
        keys = {*former.records, *later.records}
        changed = []
        for key in keys:
            before, after = former.records.get(key), later.records.get(key)
            # The rates are changes of their own.
            if (
                before is None
                or after is None
                or (
                    before.version != after.version
                    and _without_rates(before) != _without_rates(after)
                )
            ):
                changed.append(key)
        kept = sorted((each for each in changed if each in later.records), key=later.rank)
        gone = sorted((each for each in changed if each not in later.records), key=former.rank)
        for key in (*kept, *reversed(gone)):
            before, after = former.records.get(key), later.records.get(key)
            yield InputChange(
                self._entity_cause(key, before, after),
                is_certain=key[1] in used,
                read=(PastMoment(*key, self.after.at),),
                drawn=(PastMoment(*key, self.after.ledger_at),),
            )

    def _entity_cause(
        self, key: EntityKey, before: Record[Any] | None, after: Record[Any] | None
    ) -> DifferenceCause:
        kind, id_ = key
        record = after or before
        assert record is not None, key
        author, at = record.modified_by, record.modified
        if after is None:
            [*_, last] = self.reader.history(BY_KIND[kind].entity, id_)
            author, at = last.author, last.valid_from
        return DifferenceCause(
            kind=CauseKind.ENTITY,
            name=f"{kind} {code_or_name(record)}",
            id=id_,
            detail=describe_change(before, after),
            before=None if before is None else str(before.version),
            after=None if after is None else str(after.version),
            author=author,
            at=at,
        )

    def _bill_changes(self, account_ids: frozenset[str]) -> Iterator[InputChange]:
        """Other bills that were made, changed, locked or deleted; and this one."""
        first, last = min(self.before.at, self.after.at), self.after.ledger_at
        for each in changed_bills_between(self.reader, account_ids, first, last):
            yield InputChange(
                describe_bill(each, self.bill_id),
                is_certain=False,
                read=(PastMoment(OF_BILL, each.id, self.after.at),),
                drawn=(PastMoment(OF_BILL, each.id, self.after.ledger_at),),
            )

    def _credit_changes(
        self, former: AccountEntities, later: AccountEntities
    ) -> Iterator[InputChange]:
        """What came into and went out of balances and commitments, but for this bill's draws."""
        bounds = sorted((self.before.ledger_at, self.after.ledger_at))
        ids = former.source_ids | later.source_ids
        found = postings_between(self.reader, ids, *bounds)
        names = {id_: record for e in (former, later) for (_, id_), record in e.records.items()}
        for source_id, postings in found.items():
            others = [each for each in postings if each.bill_id != self.bill_id]
            if others:
                yield InputChange(
                    describe_credits(names[source_id], others),
                    drawn=(PastMoment(OF_SOURCE, source_id, self.after.ledger_at),),
                )

    def _memo_changes(self) -> Iterator[InputChange]:
        """Lines that people put on the bill, changed or took away.

        A line counts for what sources pay only from the next calculation on.
        """
        before, after = self.before, self.after
        authors = memo_authors(self.reader, self.bill_id)
        gone = gone_memos(self.reader, self.bill_id)
        for key in dict.fromkeys((*before.memos, *after.memos, *before.credited, *after.credited)):
            lines = [(each.memos.get(key), each.credited.get(key)) for each in (before, after)]
            if [_numberless(each) for each in lines[0]] != [_numberless(each) for each in lines[1]]:
                cause = describe_memo(key, *(shown or known for shown, known in lines))
                author, at = authors.get(key, (None, None))
                if author is None and (line := gone.get(key)) is not None:
                    is_removed = after.memos.get(key) is None
                    author = line.removed_by if is_removed else line.made_by
                    at = line.removed if is_removed else line.made
                yield InputChange(
                    replace(cause, author=author, at=at),
                    memo=key,
                    drawn=(PastMoment(OF_MEMO, key, self.after.ledger_at),),
                )

    def _selection_changes(self) -> Iterator[InputChange]:
        before, after = self.before.selection, self.after.selection
        if before == after:
            return
        said = [each.overrides.to_wire() for each in (before, after)]
        names = dict.fromkeys((*said[0], *said[1]))
        changed = [each for each in names if said[0].get(each) != said[1].get(each)]
        detail = f"the job said something else: {', '.join(changed)}" if changed else ""
        cause = DifferenceCause(
            kind=CauseKind.JOB,
            name="settings of the job" if changed else "bills of the job",
            detail=detail or "the job made other bills of the account together",
        )
        yield InputChange(cause, is_selection=True)


def _usage_changes(found: MeasurementChanges) -> Iterator[InputChange]:
    """What sources brought, in the order in which they were received."""
    ordered = sorted(
        found.sources.items(),
        key=lambda item: (
            item[1].received_at is not None and item[1].received_at.timestamp(),
            item[1].name,
            item[0],
        ),
    )
    by_size = sorted(ordered, key=lambda item: -sum(found.counts[item[0]]))
    single = {label for label, _ in by_size[:SOURCES_MAX]}
    for label, source in ordered:
        if label in single:
            cause = DifferenceCause(
                kind=CauseKind.USAGE,
                name=source.name,
                id=source.identity,
                detail=describe_measurements(*found.counts[label]),
                at=source.received_at,
            )
            yield InputChange(cause, labels=frozenset({label}))
    others = [label for label, _ in ordered if label not in single]
    if others:
        came, went = (sum(found.counts[each][side] for each in others) for side in (0, 1))
        cause = DifferenceCause(
            kind=CauseKind.USAGE,
            name=counted(len(others), "more source"),
            detail=describe_measurements(came, went),
        )
        yield InputChange(cause, labels=frozenset(others))


def _corrections(found: MeasurementChanges) -> Iterator[InputChange]:
    """What backfills changed, in the order in which they were done."""
    labels = [each for each in found.counts if each not in found.sources]
    known = found.backfills
    for label in sorted(
        labels, key=lambda each: (each in known and known[each].at.timestamp(), each)
    ):
        done = known.get(label)
        counted = describe_measurements(*found.counts[label])
        reason = f", {done.reason!r}" if done and done.reason else ""
        cause = DifferenceCause(
            kind=CauseKind.CORRECTION,
            name=f"backfill {done.id if done else label.partition(':')[2]}",
            id=done.id if done else None,
            detail=f"{done.mode} {_DONE[done.action.value]}{reason}: {counted}"
            if done
            else counted,
            author=done and done.author,
            at=done and done.at,
        )
        yield InputChange(cause, labels=frozenset({label}))


_DONE: Final = {"apply": "applied", "revert": "reverted"}


def _rate_changes(
    before: Record[OrganizationConfig], after: Record[OrganizationConfig]
) -> Iterator[InputChange]:
    former, later = rates_of(before.entity), rates_of(after.entity)
    for pair in sorted({*former, *later}):
        rates = former.get(pair), later.get(pair)
        if rates[0] == rates[1]:
            continue
        cause = DifferenceCause(
            kind=CauseKind.RATE,
            name=f"{pair[0]} to {pair[1]}",
            detail="rate of the organization",
            before=None if rates[0] is None else plain(rates[0].multiplier),
            after=None if rates[1] is None else plain(rates[1].multiplier),
            author=after.modified_by,
            at=after.modified,
        )
        yield InputChange(cause, pair=pair)


def _without_rates(record: Record[Any]) -> Any:
    if isinstance(record.entity, OrganizationConfig):
        return record.entity.model_copy(update={"currency_conversions": ()})
    return record.entity


def _numberless(line: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A line without its place on the bill."""
    return line and {name: value for name, value in line.items() if name != "sequenceNumber"}
