"""Customers as people name them in forms: by the code, or by the name."""

from typing import Any, Final

from meterlake.console.shell.api import ApiRefusalError, rows_of
from meterlake.console.shell.lists import SIGNS
from meterlake.console.shell.page import Visit

_LISTED_MAX: Final = 5


async def customer_named(visit: Visit, label: str, text: str) -> dict[str, Any]:
    """The customer with a code, or else the one whose name is a text or has it within.

    Raises:
        ApiRefusalError: There is none, or there are several; the form's field has the label.
    """
    if "," not in text and (found := rows_of(await visit.api.find("/accounts", codes=text))):
        return dict(found[0])
    words = SIGNS.sub(" ", text).strip()
    search = f"name*{words}"
    rows = rows_of(await visit.api.find("/accounts", searchQuery=search)) if words else []
    named = [each for each in rows if each["name"].lower() == text.lower()] or rows
    if len(named) == 1:
        return dict(named[0])
    if not named:
        reason = (
            f"{label}: there is no customer with the code or the name {text!r}; look it up first"
        )
        raise ApiRefusalError(400, reason)
    codes = ", ".join(each["code"] for each in named[:_LISTED_MAX])
    more = ", ..." if len(named) > _LISTED_MAX else ""
    reason = f"{label}: several customers have a name like {text!r}: write the code, {codes}{more}"
    raise ApiRefusalError(400, reason)
