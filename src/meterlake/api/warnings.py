"""The header that tells whoever saves something what of it has no effect, or will not work."""

from typing import Any, Final

from pydantic import ValidationError

from meterlake.api.call import Call
from meterlake.api.operations import Operation
from meterlake.model.entity import Entity
from meterlake.model.resources import RESOURCES
from meterlake.model.unused import without_effect
from meterlake.pipeline.config.cautions import CAUTIONS, read_cautions

_WRITES: Final = frozenset({"POST", "PUT"})
# Under the names of the operations' permissions, as operations have no other of their kind.
_KINDS: Final = {row.permission: row.entity for row in RESOURCES}


async def warnings(call: Call, operation: Operation, answer: Any) -> dict[str, str]:
    """The header `Warning` (299, of RFC 7234) of an answer that shows what was written, if any."""
    entity = _written(operation, answer)
    if entity is None:
        return {}
    if type(entity) in CAUTIONS:
        found = await call.run(read_cautions, call.stores, call.org_id, entity)
    else:
        found = list(without_effect(entity))
    return header(found)


def header(sentences: list[str]) -> dict[str, str]:
    """The header of some sentences; a header holds ASCII, and no quotes within quotes."""
    texts = (each.encode("ascii", "replace").decode().replace('"', "'") for each in sentences)
    told = ", ".join(f'299 meterlake "{each}"' for each in texts)
    return {"Warning": told} if told else {}


def _written(operation: Operation, answer: Any) -> Entity | None:
    """The entity that an answer shows, if it is the one that was written."""
    kind = _KINDS.get(operation.resource)
    if kind is None or operation.method not in _WRITES or not _is_entity(answer):
        return None
    try:
        return kind.from_wire(answer)
    except ValidationError:
        return None  # It shows something else than an entity of the kind.


def _is_entity(answer: Any) -> bool:
    return isinstance(answer, dict) and "id" in answer and "version" in answer
