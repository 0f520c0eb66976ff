"""The header that tells whoever saves something what of it has no effect in this version."""

from typing import Any, Final

from pydantic import ValidationError

from meterlake.api.operations import Operation
from meterlake.model.resources import RESOURCES
from meterlake.model.unused import without_effect

_WRITES: Final = frozenset({"POST", "PUT"})
# Under the names of the operations' permissions, as operations have no other of their kind.
_KINDS: Final = {row.permission: row.entity for row in RESOURCES}


def warnings(operation: Operation, answer: Any) -> dict[str, str]:
    """The header `Warning` (299, of RFC 7234) of an answer that shows what was written, if any."""
    kind = _KINDS.get(operation.resource)
    if kind is None or operation.method not in _WRITES or not _is_entity(answer):
        return {}
    try:
        entity = kind.from_wire(answer)
    except ValidationError:
        return {}  # It shows something else than an entity of the kind.
    told = ", ".join(f'299 meterlake "{sentence}"' for sentence in without_effect(entity))
    return {"Warning": told} if told else {}


def _is_entity(answer: Any) -> bool:
    return isinstance(answer, dict) and "id" in answer and "version" in answer
