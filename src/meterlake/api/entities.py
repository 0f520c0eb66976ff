"""The standard operations of declared resources: what the query and the path say, as calls.

Beside them, what is around one entity: what it refers to, what refers to it, its changes.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from meterlake.api.server.answers import JsonResponse
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation
from meterlake.api.server.page_tokens import NEXT_TOKEN, position_of
from meterlake.api.server.readable_fields import permit_each, visible_rows
from meterlake.model.configuration.permissions import ANYTHING
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.resources import BY_NAME, RESOURCES, Filter, Resource
from meterlake.model.resources.listing import FilterValues, Search, terms
from meterlake.model.resources.resource import Verb
from meterlake.model.values.ids import is_id
from meterlake.model.values.period import format_instant
from meterlake.pipeline.config import entities, relations
from meterlake.pipeline.config.entities import Document, ResourceRef
from meterlake.stores.state.core.pages import Page

ORDERS: Final = {"ASC": True, "DESC": False}
_JOINS: Final = {"AND": True, "OR": False}
_SEARCH_PAGE: Final = 10
_TOKEN: Final = re.compile(r"[0-9]{1,18}")

_VERBS: Final[tuple[Verb, ...]] = ("create", "retrieve", "list", "update", "delete", "search")
_ENTITY: Final = f"{ORGANIZATION}/configuration/{{kind}}/{{id}}"
_LIMIT_MAX: Final = 1_000


def standard_operations() -> list[Operation]:
    """The operations of every declared resource."""
    return [
        _operation(resource, verb)
        for resource in RESOURCES
        for verb in _VERBS
        if verb in resource.verbs
    ]


def _operation(resource: Resource, verb: Verb) -> Operation:
    method, action, make, has_id = _SHAPES[verb]
    path = f"{ORGANIZATION}/{resource.path}"
    if verb == "search":
        path += "/search"
    elif has_id and not resource.singleton:
        path += "/{id}"
    return Operation(
        resource.operation_name(verb),
        method,
        path,
        action,
        resource.permission,
        make(resource),
        feature=resource.feature,
    )


def members(call: Call, resource: Resource) -> dict[str, str]:
    """The members of the path that are fields of the entity."""
    return {name: call.path[name] for name in resource.path_members}


def resource_ref(call: Call, resource: Resource) -> ResourceRef:
    """Where the path points to.

    Raises:
        NotFound: Its id is no id, so that nothing can have it.
    """
    found = call.path.get("id")
    if found is not None and not is_id(found):
        raise NotFound(resource.kind, found)
    return ResourceRef(resource, members(call, resource), found and found.lower())


def page(call: Call, most: int) -> Page:
    """The page that a query asks for."""
    size = call.query.integer("pageSize", most, least=1, most=most)
    assert size is not None
    return Page(size, call.next_token)


def ordered_page(call: Call, most: int, field: str) -> Page:
    """The page of a list in the order of one field, of time: the newest first unless asked otherwise."""
    call.query.one_of("sortBy", {field: field}, default=None)
    oldest_first = call.query.one_of("sortOrder", ORDERS, default=False)
    return replace(page(call, most), oldest_first=oldest_first)


def searched_page(call: Call, resource: Resource, most: int | None = None) -> Page:
    """The page that the query of a list of entities asks for, with what narrows and orders it."""
    this = page(call, most or resource.page_max)
    fields = resource.listed_fields
    search = search_of(call, fields, this.size)
    return replace(this, oldest_first=search.ascending, search=search)


def _retrieve(resource: Resource) -> Handler:
    if not entities.is_plain(resource):
        return retrieving(resource)

    dated = retrieving(resource)

    async def retrieve(call: Call) -> Any:
        if "asOf" in call.query:
            return await dated(call)
        here = resource_ref(call, resource)
        if call.stores.state.waits_for_nobody:
            return JsonResponse(entities.retrieve_json(call.organization, here))
        found = await call.run(entities.retrieve_json, call.organization, here)
        return JsonResponse(found)

    return retrieve


def retrieving(resource: Resource) -> Handler:
    """Answers with one entity, as a document that others may add to."""

    async def retrieve(call: Call) -> Any:
        here, at = resource_ref(call, resource), call.query.instant("asOf")
        if at is not None:
            return await call.run(entities.as_of, call.organization, here, at)
        return await call.run(entities.retrieve, call.organization, here)

    return retrieve


def _list(resource: Resource) -> Handler:
    async def list_(call: Call) -> Any:
        criteria = filters(call, resource)
        return await call.run(
            entities.list_page,
            call.organization,
            resource,
            criteria,
            searched_page(call, resource),
        )

    return list_


def filters(call: Call, resource: Resource) -> list[FilterValues]:
    """The filters of a query, and the members of the path as filters."""
    found = [
        FilterValues(Filter(name, several=True), (value,))
        for name, value in members(call, resource).items()
    ]
    for each in resource.filters:
        if each.name not in call.query:
            continue
        if each.needs is not None and each.needs not in call.query:
            raise Invalid(each.name, call.query.text(each.name), f"give {each.needs}, too")
        found.append(FilterValues(each, _values(call, each)))
    return found


def _values(call: Call, what: Filter) -> tuple[str | bool, ...]:
    match what.kind:
        case "flag":
            return (call.query.flag(what.name),)
        case "date" | "instant":
            instant = call.query.instant(what.name)
            assert instant is not None
            return (format_instant(instant),)
        case _ if what.several:
            return tuple(call.query.texts(what.name))
        case _:
            return (call.query.text(what.name) or "",)


def _write(verb: Callable[..., Any], resource: Resource) -> Handler:
    async def write(call: Call) -> Any:
        document, here = await call.document(), resource_ref(call, resource)
        return await call.run(verb, call.organization, call.author, here, document)

    return write


def _delete(resource: Resource) -> Handler:
    async def delete(call: Call) -> Any:
        here = resource_ref(call, resource)
        return await call.run(entities.delete, call.organization, call.author, here)

    return delete


def _search(resource: Resource) -> Handler:
    fields = resource.search_fields

    async def search(call: Call) -> Any:
        criteria = search_criteria(call, fields, resource.page_max)
        return await call.run(entities.search, call.organization, resource, criteria)

    return search


def search_criteria(call: Call, fields: frozenset[str], most: int) -> Search:
    """What the query of a search asks for.

    Args:
        call: The request.
        fields: What terms may name.
        most: How many there may be on a page.
    """
    size = call.query.integer("pageSize", _SEARCH_PAGE, least=1, most=most)
    assert size is not None
    return replace(search_of(call, fields, size), start=_start(call))


def search_of(call: Call, fields: frozenset[str], size: int) -> Search:
    """What narrows and orders a search or a list, from its first row on."""
    query = call.query
    return Search(
        terms(query.text("searchQuery") or "", fields),
        query.one_of("operator", _JOINS, default=True),
        query.text("sortBy"),
        query.one_of("sortOrder", ORDERS, default=False),
        0,
        size,
    )


def _start(call: Call) -> int:
    """The document to begin with: where the page before ended, or where the caller likes."""
    query, words = call.query, call.search_words
    token = query.text(NEXT_TOKEN)
    if token is not None and not _TOKEN.fullmatch(token):
        raise Invalid(
            NEXT_TOKEN, token, "it must be the nextToken of the page before, of the same search"
        )
    start = query.integer("fromDocument", 0, least=0)
    assert start is not None
    name, value = ("fromDocument", start) if token is None else (NEXT_TOKEN, int(token))
    return position_of(name, value, call.list_mark, words)


_SHAPES: Final[dict[Verb, tuple[str, str, Callable[[Resource], Handler], bool]]] = {
    "create": ("POST", "config:create", partial(_write, entities.create), False),
    "retrieve": ("GET", "config:retrieve", _retrieve, True),
    "list": ("GET", "config:retrieve", _list, False),
    "update": ("PUT", "config:update", partial(_write, entities.update), True),
    "delete": ("DELETE", "config:delete", _delete, True),
    "search": ("GET", "config:retrieve", _search, False),
}


async def list_references(call: Call) -> Any:
    """Without the entities that whoever asks may not see."""
    resource, id_ = relations.resource_named(call.path["kind"]), call.path["id"]
    await permit_each(call, resource.permission, [id_])
    found = await call.run(relations.relations, call.organization, resource, id_)
    found["refersTo"] = await _visible(call, found["refersTo"])
    for each in found["referredBy"]:
        each["entities"] = await _visible(call, each["entities"])
    found["referredBy"] = [each for each in found["referredBy"] if each["entities"]]
    return found


async def list_changes(call: Call) -> Any:
    """Without the changes of entities that whoever asks may not see."""
    resource, id_ = relations.resource_named(call.path["kind"]), call.path["id"]
    await permit_each(call, resource.permission, [id_])
    limit = call.query.integer("limit", relations.REFERRING_MAX, least=1, most=_LIMIT_MAX)
    including = tuple(map(relations.resource_named, call.query.texts("including")))
    found = await call.run(
        relations.history, call.organization, resource, id_, including, limit or 1
    )
    found["data"] = await _visible(call, found["data"])
    return found


async def _visible(call: Call, rows: list[Document]) -> list[Document]:
    """The rows of which whoever asks may read the entity."""
    ids = set()
    for kind in {each["kind"] for each in rows}:
        of_kind = [each for each in rows if each["kind"] == kind]
        ids |= {
            (kind, each["id"])
            for each in await visible_rows(call, BY_NAME[kind].permission, of_kind)
        }
    return [each for each in rows if (each["kind"], each["id"]) in ids]


OPERATIONS: Final = (
    # The right to read the entity itself is needed, whose kind the path says.
    Operation(
        "ListEntityReferences",
        "GET",
        f"{_ENTITY}/references",
        ANYTHING,
        "configuration",
        list_references,
        item="",
    ),
    Operation(
        "ListEntityChanges",
        "GET",
        f"{_ENTITY}/changes",
        ANYTHING,
        "configuration",
        list_changes,
        item="",
    ),
)
