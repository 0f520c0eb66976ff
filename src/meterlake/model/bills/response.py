"""A bill and its lines as the API shows them and as templates read them, made from their members."""

from collections.abc import Iterable
from typing import Any

from pydantic import Field, create_model
from pydantic.alias_generators import to_snake

from meterlake.model.bills.members import BILL_MEMBERS, LINE_MEMBERS, BillMember, ShownIn
from meterlake.model.values.entity import Value
from meterlake.model.values.envelope import Envelope


def response_fields(members: Iterable[BillMember], where: ShownIn) -> dict[str, Any]:
    """The fields of an answer, by the names of its attributes.

    A line that its bill shows has those that every line has; elsewhere, each may be absent.
    """
    return {
        to_snake(each.name): _field(each, required=each.required and where is ShownIn.BILL)
        for each in members
        if where in each.shown
    }


def _field(member: BillMember, *, required: bool) -> tuple[Any, Any]:
    if required:
        return member.type, Field(alias=member.name)
    return member.type | None, Field(default=None, alias=member.name)


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
