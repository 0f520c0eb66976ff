"""The header `Warning` (299, of RFC 7234): what has no effect, will not work, or was ignored."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from meterlake.api.openapi.builder import query_names
from meterlake.api.openapi.shapes import SHAPES
from meterlake.api.responses.envelope import ToldBody
from meterlake.api.server.call import Call, Operation
from meterlake.model.calculation.mistakes import nearest
from meterlake.model.resources import RESOURCES
from meterlake.model.resources.unused import without_effect
from meterlake.model.values.entity import Entity
from meterlake.pipeline.config.cautions import CAUTIONS, read_cautions

_SEARCH: Final = "/search"
_SHOWN_MAX: Final = 40
_WRITES: Final = frozenset({"POST", "PUT"})
# Under the names of the operations' permissions, as operations have no other of their kind.
_KINDS: Final = {row.permission: row.entity for row in RESOURCES}


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
    return {"Warning": told} if told else {}


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
