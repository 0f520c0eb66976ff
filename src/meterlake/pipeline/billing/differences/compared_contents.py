"""The two contents of a bill that are compared, and what each of them was calculated from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal

from meterlake.model.errors import Conflict, Invalid, NotFound
from meterlake.model.values.version import calculation_digest, code_version
from meterlake.pipeline.billing.calculation.recalculation import select_again
from meterlake.stages.bill import BillSelection
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills.versions import BillVersion, get_version, list_versions
from meterlake.stores.state.billing.calculations.pins import (
    CalculationPins,
    last_transaction,
    read_calculations,
)
from meterlake.stores.state.billing.memos.memos import KEY_PREFIX, memo_lines
from meterlake.stores.state.billing.stored_bills import BillContent

NOW: Final = "now"


@dataclass(frozen=True, slots=True)
class DiffChoice:
    """Which contents of a bill are compared.

    Without any, these are the last two that it had; or, if it had only one, that one and what the
    bill would be now.

    Attributes:
        first: The version of the former one; the one before the later one if None.
        last: The version of the later one, or what the bill would be now.
    """

    first: int | None = None
    last: int | Literal["now"] | None = None


@dataclass(frozen=True, slots=True)
class ComparedEnd:
    """A content of a bill with what it was calculated from.

    Attributes:
        version: None for what the bill would be now.
        content: As it is stored; None for now.
        at: The last transaction that the calculation sees.
        ledger_at: The last one that its ledger has.
        memos: The lines of people on the bill, by key.
        credited: Those of them that the calculation knew of: sources do not pay what is credited.
    """

    version: int | None
    content: BillContent | None
    at: int
    ledger_at: int
    snapshot: int
    selection: BillSelection
    code: str
    is_same_code: bool
    made: datetime
    memos: Mapping[str, Mapping[str, Any]]
    credited: Mapping[str, Mapping[str, Any]]


def read_ends(
    organization: Organization, bill_id: str, choice: DiffChoice
) -> tuple[ComparedEnd, ComparedEnd]:
    """Both contents.

    Raises:
        NotFound: There never was such a bill, or it had no such version.
        Invalid: The later version is not later.
        Conflict: A version of meterlake made one of them that does not tell what it was made from.
    """
    snapshot = organization.lake.snapshot()
    with organization.reading() as reader:
        versions = [each.version for each in list_versions(reader, bill_id)]
        first, last = _resolve(choice, versions)
        former = _get_version(reader, bill_id, first, versions)
        before = _stored_end(reader, former)
        if last is None:
            after = _present_end(reader, former, before, snapshot, organization.now())
        else:
            later = _get_version(reader, bill_id, last, versions)
            if later.version == former.version:
                rule = f"it must be a version with another content than version {first}"
                raise Invalid("to", last, f"{rule}; those are {_join_versions(versions)}")
            after = _stored_end(reader, later)
    ends = []
    for end in (before, after):
        with organization.past(end.ledger_at).reading() as reader:
            found = memo_lines(reader, [bill_id]).get(bill_id, ())
        ends.append(replace(end, credited={each.key: each.body for each in found}))
    return ends[0], ends[1]


def _get_version(reader: Reader, bill_id: str, version: int, known: list[int]) -> BillVersion:
    try:
        return get_version(reader, bill_id, version)
    except NotFound:
        hint = f"; choose one that it has: {_join_versions(known)}"
        raise NotFound("version of the bill", f"{bill_id}/{version}", hint) from None


def _resolve(choice: DiffChoice, versions: list[int]) -> tuple[int, int | None]:
    """The versions that are meant; None for now.

    Raises:
        Invalid: They do not follow each other.
    """
    first, last, newest = choice.first, choice.last, versions[-1]
    if last == NOW:
        return (newest if first is None else first), None
    if last is None:
        if first is None and len(versions) > 1:
            return versions[-2], newest
        first = newest if first is None else first
        return (first, newest) if first < newest else (first, None)
    if first is None:
        # A version of an approval has the content of the one before it.
        holding = [each for each in versions if each <= last][:-1]
        first = holding[-1] if holding else 0
    if not 0 < first < last:
        rule = f"it must be a version after {first or newest}; those with a content are {_join_versions(versions)}"
        raise Invalid("to", last, rule)
    return first, last


def _join_versions(versions: list[int]) -> str:
    return ", ".join(map(str, versions))


def _stored_end(reader: Reader, version: BillVersion) -> ComparedEnd:
    id_ = version.calculation_id
    pins = None if id_ is None else read_calculations(reader, [id_]).get(id_)
    if pins is None:
        raise Conflict(
            f"version {version.version} of the bill does not say what it was made from:"
            " a version of meterlake made it that did not write that down;"
            " compare later versions, or make the bill again"
        )
    return ComparedEnd(
        version=version.version,
        content=version.content,
        at=pins.at,
        ledger_at=version.ledger_at,
        snapshot=pins.snapshot,
        selection=select_again(pins, {version.content.key.account_id}),
        code=pins.code,
        is_same_code=pins.digest == calculation_digest(),
        made=version.modified,
        memos={
            each.key: each.body for each in version.content.lines if each.key.startswith(KEY_PREFIX)
        },
        credited={},
    )


def _present_end(
    reader: Reader, version: BillVersion, before: ComparedEnd, snapshot: int, now: datetime
) -> ComparedEnd:
    """What the job that made a content would make of the bill now."""
    number = last_transaction(reader)
    memos = memo_lines(reader, [version.bill_id]).get(version.bill_id, ())
    return ComparedEnd(
        version=None,
        content=None,
        at=number,
        ledger_at=number,
        snapshot=snapshot,
        selection=before.selection,
        code=code_version(),
        is_same_code=True,
        made=now,
        memos={each.key: each.body for each in memos},
        credited={},
    )


def list_bill_versions(organization: Organization, bill_id: str) -> list[dict[str, Any]]:
    """All contents that a bill had, the first one first.

    Raises:
        NotFound: There never was such a bill.
    """
    with organization.reading() as reader:
        found = list_versions(reader, bill_id)
        ids = {each.calculation_id for each in found if each.calculation_id is not None}
        calculations = read_calculations(reader, ids)
    return [_version_to_wire(each, calculations) for each in found]


def _version_to_wire(
    version: BillVersion, calculations: Mapping[str, CalculationPins]
) -> dict[str, Any]:
    pins = calculations.get(version.calculation_id or "")
    found = {
        "version": version.version,
        "total": version.content.total,
        "currency": version.content.currency,
        "modified": version.modified,
        "modifiedBy": version.modified_by,
        "replaced": version.replaced,
        "replacedBy": version.replaced_by,
        "snapshot": version.content.pins.get("snapshot"),
        "code": None if pins is None else pins.code,
    }
    return {name: value for name, value in found.items() if value is not None}
