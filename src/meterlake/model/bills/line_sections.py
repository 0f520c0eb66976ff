"""The order in which people read the lines of a bill: on its document, and on its page."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from meterlake.model.bills.bill import DRAWING_TYPES, LineItemType
from meterlake.model.bills.document import SectionKind

_MEMOS: Final = {
    LineItemType.CREDIT_MEMO,
    LineItemType.DEBIT_MEMO,
    LineItemType.MANUAL_ADJUSTMENT,
}
_TITLES: Final = {
    SectionKind.OTHER: "Other charges",
    SectionKind.CREDITS: "Prepayments and commitments applied",
    SectionKind.MEMOS: "Credits and adjustments",
}
_ORDER: Final = tuple(SectionKind)


class LineSection(NamedTuple):
    """Lines that stand together, in their order; there is one at least."""

    kind: SectionKind
    lines: list[Mapping[str, Any]]

    @property
    def title(self) -> str:
        """The name of the product, or what the lines have in common."""
        return _TITLES.get(self.kind) or str(self.lines[0].get("productName") or "")


def sections_of_lines(lines: Iterable[Mapping[str, Any]]) -> list[LineSection]:
    """The lines by product, then those of no product, what credits paid, and memos.

    Products come in the order of their first lines.
    """
    groups: dict[tuple[SectionKind, str], LineSection] = {}
    for line in sorted(lines, key=lambda each: int(each["sequenceNumber"])):
        if line["lineItemType"] in DRAWING_TYPES:
            kind = SectionKind.CREDITS
        elif line["lineItemType"] in _MEMOS:
            kind = SectionKind.MEMOS
        else:
            kind = SectionKind.PRODUCT if line.get("productId") else SectionKind.OTHER
        product = str(line["productId"]) if kind is SectionKind.PRODUCT else ""
        groups.setdefault((kind, product), LineSection(kind, [])).lines.append(line)
    return sorted(groups.values(), key=lambda each: _ORDER.index(each.kind))
