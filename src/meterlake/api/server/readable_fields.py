"""What of an answer whoever asks may read: whatever the verb, reading needs the right to read."""

from collections.abc import Sequence
from typing import Any, Final

from meterlake.api.server.call import Call, Operation
from meterlake.model.errors import Forbidden
from meterlake.pipeline.access.access import visible
from meterlake.pipeline.access.named_people import names_of_authors

RETRIEVE: Final = "config:retrieve"
# Operations that change or remove something answer with what it is.
_CHANGES: Final = frozenset({"config:update", "config:delete"})
# What is left of such an answer for who may not read it, beside what the caller wrote.
_KEPT: Final = ("id", "version", "message")
# What a query adds up, by the resource that it is about.
_QUERY: Final = "analytics:query"
_QUERIED: Final = {"usage": ("measurements:retrieve", "measurements")}


async def visible_rows(
    call: Call, resource: str, rows: list[Any], item: str = "id", action: str = RETRIEVE
) -> list[Any]:
    """The rows of a list that whoever asks may see, by the id that a member of each has."""
    to, state = (action, resource), call.stores.state
    found: list[Any] = await call.run(visible, state, call.org_id, call.permissions, to, rows, item)
    return found


def permit(call: Call, action: str, resource: str, id: str | None = None) -> None:
    """Whoever asks has to be allowed to do more than the operation says.

    Raises:
        Forbidden: The permission is missing.
    """
    if not call.permissions.allows(action, resource, id):
        raise Forbidden(f"no permission for {action} on {resource}; ask an administrator for it")


async def permit_each(
    call: Call, resource: str, ids: Sequence[str], action: str = RETRIEVE
) -> None:
    """What no path names may be denied singly, too.

    Raises:
        Forbidden: One of them is.
    """
    rows = [{"id": each.lower()} for each in ids]
    if len(await visible_rows(call, resource, rows, action=action)) < len(rows):
        raise Forbidden(f"no permission for {action} on {resource}; ask an administrator for it")


def permit_sum(call: Call, resource: str, action: str = RETRIEVE) -> None:
    """What is made of all of a type says what each of them says.

    A right to take sums or files of a type needs no right to read single ones. But who may read
    some of them and not others would read the others there.

    Raises:
        Forbidden: Some are withheld from who asks.
    """
    if call.permissions.withholds(action, resource):
        raise Forbidden(
            f"no permission for {action} on every {resource}; ask an administrator for it"
        )


def permit_query(call: Call, operation: Operation) -> None:
    """Refuse a query over what is withheld in part.

    Raises:
        Forbidden: It is.
    """
    if operation.action == _QUERY:
        action, resource = _QUERIED.get(operation.resource, (RETRIEVE, operation.resource))
        permit_sum(call, resource, action)


async def with_author_names(
    call: Call, rows: list[dict[str, Any]], member: str = "createdBy"
) -> list[dict[str, Any]]:
    """Rows with what people call their authors, in a member `...Name`, for who may read users."""
    if not call.permissions.unrestricted(RETRIEVE, "user"):
        return rows
    authors = {str(each[member]) for each in rows if member in each}
    names = await call.run(names_of_authors, call.organization, authors)
    return [
        {**each, f"{member}Name": names[author]}
        if (author := str(each.get(member))) in names
        else each
        for each in rows
    ]


async def shown_to(call: Call, operation: Operation, answer: Any) -> Any:
    """The answer to a change, without what the caller may not read."""
    if operation.action not in _CHANGES or not isinstance(answer, dict):
        return answer
    if call.permissions.unrestricted(RETRIEVE, operation.resource):
        return answer
    id_ = call.path.get(operation.item)
    if id_ is None:
        readable = call.permissions.allows(RETRIEVE, operation.resource)
    else:
        readable = bool(await visible_rows(call, operation.resource, [{"id": id_.lower()}]))
    if readable:
        return answer
    return {
        name: value
        for name, value in answer.items()
        if name in _KEPT or (name in call.written and call.written[name] == value)
    }
