"""What a change is called: what changed, in a few words."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from meterlake.model.bills.differences import CauseKind, DifferenceCause
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.resources import code_or_name
from meterlake.model.values import wire
from meterlake.model.values.entity import Record
from meterlake.model.values.money import plain
from meterlake.model.values.plurals import counted
from meterlake.stores.state.billing.bills.changes import AlteredBill, SourcePosting

# How long a value is that is shown, and how many there are.
_SHOWN_MAX: Final = 40
_LISTED_MAX: Final = 3


def describe_bill(bill: AlteredBill, own_id: str) -> DifferenceCause:
    """Another bill of the account or its relatives, or the bill itself."""
    own = " (this bill)" if bill.id == own_id else ""
    return DifferenceCause(
        kind=CauseKind.BILL,
        name=f"bill of {bill.bill_date}{own}",
        id=bill.id,
        detail="deleted" if bill.is_deleted else "locked" if bill.is_locked else "made again",
    )


def describe_credits(source: Record[Any], postings: Sequence[SourcePosting]) -> DifferenceCause:
    """What came into and went out of a balance or commitment."""
    kind = type(source.entity).__name__
    texts = []
    for each in postings:
        by = "" if each.bill_date is None else f" by the bill of {each.bill_date}"
        if each.bill_date is None and each.bill_id is not None:
            by = f" by bill {each.bill_id}"
        texts.append(f"{each.kind} of {each.amount}{by}")
    return DifferenceCause(
        kind=CauseKind.CREDIT,
        name=f"{kind} {code_or_name(source)}",
        id=source.id,
        detail="; ".join(_first_of(texts)),
        author=postings[-1].author,
        at=postings[-1].created,
    )


def describe_measurements(came: int, went: int) -> str:
    """How many measurements came and went."""
    if not went:
        return f"{counted(came, 'measurement')} came"
    return (
        f"{counted(went, 'measurement')} went"
        if not came
        else f"{counted(came, 'measurement')} came, {went:,} went"
    )


def describe_memo(
    key: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> DifferenceCause:
    """A line that a person put on the bill, changed or took away."""
    line = after or before
    assert line is not None, key
    became = "added" if before is None else "removed" if after is None else "changed"
    if before == after:
        became = "counts for what balances and commitments pay"
    amounts = [each and plain(Decimal(each["convertedSubtotal"])) for each in (before, after)]
    return DifferenceCause(
        kind=CauseKind.MEMO,
        name=f"{line['lineItemType']} {line.get('description', '')}".strip(),
        id=key.partition("/")[2],
        detail=became,
        before=amounts[0] or None,
        after=amounts[1] or None,
    )


def describe_change(before: Record[Any] | None, after: Record[Any] | None) -> str:
    """What of an entity changed: its members, with their values if these are short."""
    if before is None:
        return "created"
    if after is None:
        return "deleted"
    former, later = (each.entity.to_wire() for each in (before, after))
    if isinstance(before.entity, OrganizationConfig):
        former, later = ({**each, "currencyConversions": None} for each in (former, later))
    return ", ".join(_first_of([*_describe_values("", former, later)]))


def _first_of(texts: list[str]) -> list[str]:
    """The first of some texts, and how many more there are."""
    more = len(texts) - _LISTED_MAX
    return [*texts[:_LISTED_MAX], f"{more} more"] if more > 0 else texts


def _describe_values(path: str, before: Any, after: Any) -> Iterator[str]:
    """What of two values differs, member by member."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            if before.get(name) != after.get(name):
                inner = f"{path}.{name}" if path else name
                yield from _describe_values(inner, before.get(name), after.get(name))
    elif isinstance(before, (list, tuple)) and isinstance(after, (list, tuple)):
        if len(before) != len(after):
            yield f"{path} ({len(before)} → {len(after)})"
            return
        for number, values in enumerate(zip(before, after, strict=True)):
            if values[0] != values[1]:
                yield from _describe_values(f"{path}[{number}]", *values)
    else:
        texts = [
            (
                "none"
                if each is None
                else str(each)
                if isinstance(each, str)
                else wire.dumps(each).decode()
            )
            for each in (before, after)
        ]
        is_long = any(len(each) > _SHOWN_MAX for each in texts)
        yield path if is_long else f"{path} {texts[0]} → {texts[1]}"
