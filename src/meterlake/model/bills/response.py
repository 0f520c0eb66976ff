"""A bill and its lines as the API shows them and as templates read them, made from their members."""

from collections.abc import Iterable
from typing import Any

from pydantic import Field, create_model
from pydantic.alias_generators import to_snake

from meterlake.model.bills.members import BILL_MEMBERS, LINE_MEMBERS, BillMember, ShownIn
from meterlake.model.values.entity import Envelope, Value


def response_fields(members: Iterable[BillMember], where: ShownIn) -> dict[str, Any]:
    """The fields of an answer, by the names of its attributes.

    A line that its bill shows has those that every line has; elsewhere, each may be absent.
    """
    found: dict[str, Any] = {}
    for each in members:
        if where in each.shown and each.required and where is ShownIn.BILL:
            found[to_snake(each.name)] = each.type, Field(alias=each.name)
        elif where in each.shown:
            found[to_snake(each.name)] = each.type | None, Field(default=None, alias=each.name)
    return found


BillLineItem = create_model(
    "BillLineItem",
    __base__=Value,
    __doc__="A line as its bill shows it.",
    **response_fields(LINE_MEMBERS, ShownIn.BILL),
)
BillResponse = create_model(
    "BillResponse",
    __base__=Envelope,
    __doc__="A bill with its lines.",
    line_items=(tuple[BillLineItem, ...] | None, None),
    **response_fields(BILL_MEMBERS, ShownIn.BILL),
)
