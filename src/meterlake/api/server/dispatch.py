"""From a request to the answer of its operation: who asks, may they, how often, and then the call."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from meterlake.api.openapi.builder import query_names
from meterlake.api.openapi.shapes import SHAPES
from meterlake.api.responses.envelope import ToldBody
from meterlake.api.server import body
from meterlake.api.server.answers import JsonResponse, WireResponse, failure, message
from meterlake.api.server.call import Call, Operation
from meterlake.api.server.fair_threads import COSTLY, FairThreads
from meterlake.api.server.idempotency_keys import KEY_MAX, act_once
from meterlake.api.server.limits import RateLimits
from meterlake.api.server.page_tokens import NEXT_TOKEN, list_mark, mark_search, mark_token
from meterlake.api.server.readable_fields import permit_query, shown_to, visible_rows
from meterlake.model.calculation.mistakes import nearest
from meterlake.model.catalog.catalog import Features
from meterlake.model.configuration.access import Principal
from meterlake.model.configuration.permissions import Permissions
from meterlake.model.errors import Forbidden, Invalid, NotAvailable, NotFound, Unauthorized
from meterlake.model.resources import RESOURCES
from meterlake.model.resources.unused import without_effect
from meterlake.model.values.entity import Entity
from meterlake.pipeline.access.access import KnownPermissions
from meterlake.pipeline.access.idempotency import IdempotencyKey
from meterlake.pipeline.access.tokens import Tokens
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.cautions import CAUTIONS, read_cautions
from meterlake.stores import Stores

_BEARER: Final = "bearer "
_KEY: Final = "idempotency-key"
_REPEATED: Final = "Idempotent-Replayed"
_WARNING: Final = "Warning"
_SEARCH: Final = "/search"
_SHOWN_MAX: Final = 40
_WRITES: Final = frozenset({"POST", "PUT"})
# Under the names of the operations' permissions, as operations have no other of their kind.
_KINDS: Final = {row.permission: row.entity for row in RESOURCES}


class Match(NamedTuple):
    """What a path leads to: operations by method, and the members of the path."""

    operations: dict[str, Operation]
    members: dict[str, str]


@dataclass
class _Node:
    fixed: dict[str, "_Node"] = field(default_factory=dict)
    member: "_Node | None" = None
    operations: dict[str, Operation] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Router:
    """All operations; fixed segments win over members."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root = _Node()
        for operation in operations:
            node, names = self._root, []
            for segment in operation.path.strip("/").split("/"):
                if segment.startswith("{"):
                    names.append(segment[1:-1])
                    node.member = node.member or _Node()
                    node = node.member
                else:
                    node = node.fixed.setdefault(segment, _Node())
            if operation.method in node.operations:
                raise ValueError(f"{operation.method} {operation.path} stands twice")
            node.operations[operation.method] = operation
            node.names[operation.method] = tuple(names)

    def find(self, raw_path: str, method: str) -> Match | None:
        """What a path leads to, or None; empty segments do not count.

        Args:
            raw_path: The path as it was sent, percent-encoded.
            method: Which method's names the members get, if it is there.
        """
        segments = [segment for segment in raw_path.split("/") if segment]
        found = _walk(self._root, segments, ())
        if found is None:
            return None
        node, values = found
        names = node.names.get(method) or next(iter(node.names.values()))
        members = dict(zip(names, map(unquote, values), strict=True))
        return Match(node.operations, members)


def _walk(
    node: _Node, segments: list[str], values: tuple[str, ...]
) -> tuple[_Node, tuple[str, ...]] | None:
    if not segments:
        return (node, values) if node.operations else None
    first, rest = segments[0], segments[1:]
    if first in node.fixed:
        found = _walk(node.fixed[first], rest, values)
        if found is not None:
            return found
    return _walk(node.member, rest, (*values, first)) if node.member else None


@dataclass(frozen=True)
class Services:
    """What one process answers requests with.

    Attributes:
        costly: Threads of operations that take long.
        passwords: Threads that compare passwords, which takes long on purpose.
    """

    stores: Stores
    tokens: Tokens
    permissions: KnownPermissions
    limits: RateLimits
    costly: FairThreads
    passwords: FairThreads


class Dispatcher:
    """The ASGI application of all operations."""

    def __init__(self, services: Services, router: Router) -> None:
        self.services = services
        self.router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; no error leaves it."""
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except asyncio.CancelledError:  # A server that stops waits for a while, and no longer.
            response = message(503, "the server is stopping; try again")
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets JSON
            response = failure(error)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        raw = request.scope.get("raw_path") or request.url.path.encode()
        match = self.router.find(raw.decode("latin-1").partition("?")[0], request.method)
        if match is None:
            return message(404, f"there is no {request.url.path[:200]}")
        operation = match.operations.get(request.method)
        if operation is None:
            allowed = ", ".join(sorted(match.operations))
            return message(405, f"only {allowed} here", {"Allow": allowed})
        request.scope["meterlake.operation"] = operation.id
        return await self._call(request, operation, match.members)

    async def _call(
        self, request: Request, operation: Operation, members: dict[str, str]
    ) -> Response:
        services = self.services
        services.limits.check_address(
            operation.limit, request.client.host if request.client else "unknown"
        )
        principal = services.tokens.verify(_token(request))
        request.scope["meterlake.organization"] = principal.org_id
        if members["orgId"] != principal.org_id:
            raise Forbidden(
                "the token is for another organization; ask for one of this organization"
            )
        for member in members.values():
            # Not every database can even be asked for it.
            if "\x00" in member:
                raise NotFound(operation.resource, member)
        permissions = await self._permissions(principal)
        mark = list_mark(operation.id, members)
        call = Call(request, services.stores, principal, permissions, members, mark)
        await self._permit(call, operation)
        services.limits.check_organization(operation.limit, principal.org_id)
        await self._require_enabled(call, operation)
        if operation.handler is None:
            raise NotAvailable(operation.id, operation.detail)
        if operation.method == "POST" and _KEY in request.headers:
            return await self._carry_out_once(call, operation)
        return await self._carry_out(call, operation)

    async def _carry_out_once(self, call: Call, operation: Operation) -> Response:
        """The answer of an operation; that of the first request, if the same came before."""
        key = call.request.headers[_KEY]
        if not 1 <= len(key) <= KEY_MAX:
            raise Invalid("Idempotency-Key", key, f"it must have 1 to {KEY_MAX} characters")
        content, call.request = await body.read_ahead(call.request)
        place = f"{operation.id} {call.request.url.path}?{call.request.url.query}\n".encode()
        owned = IdempotencyKey(call.org_id, call.author, key, place + content)
        answer = await act_once(
            call.stores, owned, lambda: self._carry_out(call, operation), _kept_of
        )
        return _repeated(answer) if isinstance(answer, str) else answer

    async def _carry_out(self, call: Call, operation: Operation) -> Response:
        assert operation.handler is not None
        if operation.id in COSTLY:
            call.costly = self.services.costly
        found = await operation.handler(call)
        call.costly = None
        found = await shown_to(call, operation, found)
        if isinstance(found, dict) and isinstance(found.get("data"), list):
            found["data"] = await self._visible(call, operation, found["data"])
        sentences = [
            *unknown_parameters(call, operation),
            *unknown_members(call, operation),
            *await cautions(call, operation, found),
        ]
        if isinstance(found, Response):
            found.headers.update(header(sentences))
            return found
        return WireResponse(_with_token(call, operation, found), headers=header(sentences))

    async def _permissions(self, principal: Principal) -> Permissions:
        known = self.services.permissions
        cached = known.get_cached(principal)
        found = cached if cached is not None else await run_in_threadpool(known.of, principal)
        if found.empty:
            raise Forbidden(
                "no permission policy allows you anything; ask an administrator of the organization for one"
            )
        return found

    async def _permit(self, call: Call, operation: Operation) -> None:
        item = call.path.get(operation.item)
        await self._require(call, (operation.action, operation.or_action), operation.resource, item)
        if operation.reads is not None:
            await self._require(call, (operation.reads,), operation.resource, item)
        if operation.besides is not None:
            action, resource = operation.besides
            await self._require(call, (action,), resource, None)
        permit_query(call, operation)

    async def _require(
        self, call: Call, actions: tuple[str | None, ...], resource: str, item: str | None
    ) -> None:
        """Let only those go on to whom one of the actions is allowed, the first one by groups."""
        first = actions[0]
        assert first is not None
        if item is not None and call.permissions.asks_for_groups(first, resource):
            require = self.services.permissions.require
            await call.run(require, call.principal, first, resource, item)
            return
        named = [each for each in actions if each is not None]
        if not any(call.permissions.allows(each, resource, item) for each in named):
            raise Forbidden(
                f"no permission for {' or '.join(named)} on {resource}; ask an administrator for it"
            )

    async def _visible(self, call: Call, operation: Operation, rows: list[Any]) -> list[Any]:
        """Without what the principal may not see: what is denied singly is in no list either."""
        to = operation.action, operation.resource
        if not call.permissions.singles_out(*to):
            return rows
        return await visible_rows(call, operation.resource, rows, operation.item, operation.action)

    async def _require_enabled(self, call: Call, operation: Operation) -> None:
        if operation.feature is None:
            return
        features = await call.run(entities.single, call.organization, Features)
        if not getattr(features, operation.feature):
            raise Forbidden(
                f"{operation.id} is in {operation.feature}; set that to true in the organization's features"
            )


def _kept_of(answer: Response) -> str | None:
    """What is kept of an answer; files are made anew."""
    if not isinstance(answer, JsonResponse):
        return None
    warning = answer.headers.get(_WARNING)
    return json.dumps([answer.status_code, warning, bytes(answer.body).decode()])


def _repeated(kept: str) -> Response:
    status, warning, content = json.loads(kept)
    headers = {_REPEATED: "true", **({} if warning is None else {_WARNING: warning})}
    return JsonResponse(content, status, headers)


def _with_token(call: Call, operation: Operation, found: Any) -> Any:
    """An answer whose token leads on in its own list, or search, alone."""
    if not operation.path.endswith(_SEARCH) or not found.get(NEXT_TOKEN):
        return mark_token(found, call.list_mark)
    position = int(found[NEXT_TOKEN])
    return {**found, NEXT_TOKEN: mark_search(position, call.list_mark, call.search_words)}


def _token(request: Request) -> str:
    header = request.headers.get("authorization", "")
    if header[: len(_BEARER)].lower() != _BEARER:
        raise Unauthorized("a bearer token is required; get one at /oauth/token")
    return header[len(_BEARER) :].strip()


async def cautions(call: Call, operation: Operation, answer: Any) -> list[str]:
    """What is to be said of what was written, if the answer shows it: in sentences."""
    entity = _written(operation, answer)
    if entity is None:
        return []
    if type(entity) in CAUTIONS:
        return await call.run(read_cautions, call.organization, entity)
    return list(without_effect(entity))


def unknown_parameters(call: Call, operation: Operation) -> Iterator[str]:
    """Of the parameters of the query that the operation does not have, what may be meant."""
    if not call.query.names:
        return
    known = query_names(operation)
    for name in call.query.names:
        if name not in known:
            yield f"{_shorten(name)} is no parameter of {operation.id} and was ignored: {_meant(name, operation, known)}"


def unknown_members(call: Call, operation: Operation) -> Iterator[str]:
    """Of the members of the body that an operation of our own does not have, what may be meant."""
    shape = SHAPES.get(operation.id)
    if shape is None or not isinstance(shape.takes, type) or not issubclass(shape.takes, ToldBody):
        return
    known = {each.alias or name for name, each in shape.takes.model_fields.items()}
    for name in call.written:
        if name not in known:
            near = nearest(name, known)
            meant = f"did you mean {near}?" if near else f"it takes {', '.join(sorted(known))}"
            yield f"{_shorten(name)} is no member of {operation.id} and was ignored: {meant}"


def _shorten(name: str) -> str:
    return name if len(name) <= _SHOWN_MAX else f"{name[:_SHOWN_MAX]}..."


def _meant(name: str, operation: Operation, known: frozenset[str]) -> str:
    near = nearest(name, known)
    if near is not None:
        return f"did you mean {near}?"
    search_id = f"Search{operation.id.removeprefix('List')}"
    search = replace(operation, id=search_id, path=f"{operation.path}{_SEARCH}")
    near = nearest(name, query_names(search))
    if near is not None:
        return f"did you mean {near} of GET {search.path}?"
    return f"it takes {', '.join(sorted(known))}" if known else "it takes none"


def header(sentences: list[str]) -> dict[str, str]:
    """The header of some sentences; a header holds ASCII, and no quotes within quotes."""
    texts = (each.encode("ascii", "replace").decode().replace('"', "'") for each in sentences)
    told = ", ".join(f'299 meterlake "{each}"' for each in texts)
    return {_WARNING: told} if told else {}


def _written(operation: Operation, answer: Any) -> Entity | None:
    """The entity that an answer shows, if it is the one that was written."""
    kind = _KINDS.get(operation.resource)
    if (
        kind is None
        or operation.method not in _WRITES
        or not (isinstance(answer, dict) and "id" in answer and "version" in answer)
    ):
        return None
    try:
        return kind.from_wire(answer)
    except ValidationError:
        return None  # It shows something else than an entity of the kind.
