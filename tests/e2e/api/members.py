"""The members of the bodies that the served document describes, and bodies with one bad member."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

Schema = dict[str, Any]
Step = str | int

_JSON: Final = "application/json"
_PARTS: Final = ("allOf", "anyOf", "oneOf")
_DEEPEST: Final = 8
_FORMATS: Final = {
    "uuid": "00000000-0000-4000-8000-000000000000",
    "date": "2026-10-01",
    "date-time": "2026-10-01T00:00:00Z",
    "email": "bills@acme.example",
}
_OF_TYPE: Final[dict[str, Any]] = {
    "integer": 1,
    "number": 1,
    "boolean": True,
    "string": "word",
    "object": {},
    "array": [],
}


class Member(NamedTuple):
    """A member of a body.

    Attributes:
        steps: Its place: `("pricingBands", 0, "unitPrice")`.
        words: Its words if it is an enum.
        is_text: Whether it is a text in no format.
    """

    steps: tuple[Step, ...]
    words: tuple[Any, ...]
    is_text: bool


@dataclass(frozen=True)
class Operation:
    """An operation that takes a JSON body."""

    id: str
    method: str
    path: str
    body: Schema


class Document:
    """The served document as a source of operations and bodies."""

    def __init__(self, document: Schema) -> None:
        self._document = document

    @cached_property
    def operations(self) -> list[Operation]:
        """Every operation that takes a JSON body."""
        return [
            Operation(each["operationId"], method.upper(), path, content[_JSON]["schema"])
            for path, item in self._document["paths"].items()
            for method, each in item.items()
            if _JSON in (content := each.get("requestBody", {}).get("content", {}))
        ]

    def members(self, schema: Schema) -> dict[tuple[Step, ...], Member]:
        """Every member of a body, each place once."""
        found: dict[tuple[Step, ...], Member] = {}
        for steps, each in self._walk(schema, (), 0):
            known = found.get(steps, Member(steps, (), is_text=False))
            words = known.words or self._words(each)
            found[steps] = Member(steps, words, known.is_text or self._is_text(each))
        return found

    def _walk(
        self, schema: Schema, steps: tuple[Step, ...], depth: int
    ) -> Iterator[tuple[tuple[Step, ...], Schema]]:
        flat = self._flat(schema)
        if depth > _DEEPEST:
            return
        for part in (part for name in _PARTS for part in flat.get(name, ())):
            yield from self._walk(part, steps, depth + 1)
        inner = [(name, each) for name, each in flat.get("properties", {}).items()]
        inner += [(0, flat["items"])] if "items" in flat else []
        values = flat.get("additionalProperties")
        inner += [("any", values)] if isinstance(values, dict) else []
        for step, each in inner:
            yield (*steps, step), each
            yield from self._walk(each, (*steps, step), depth + 1)

    def _is_text(self, schema: Schema) -> bool:
        flat = self._flat(schema)
        parts = [part for name in _PARTS for part in flat.get(name, ())]
        if "enum" in flat or "const" in flat or flat.get("format", "email") != "email":
            return False
        return flat.get("type") == "string" or any(map(self._is_text, parts))

    def _words(self, schema: Schema) -> tuple[Any, ...]:
        flat = self._flat(schema)
        parts = (self._words(part) for name in _PARTS for part in flat.get(name, ()))
        const = (flat["const"],) if "const" in flat else ()
        return tuple(flat.get("enum", const)) or next(filter(None, parts), ())

    def sample(self, schema: Schema, depth: int = 0) -> Any:
        """A value that a schema describes, with every member of it."""
        flat = self._flat(schema)
        parts = [part for name in _PARTS for part in flat.get(name, ())]
        if "properties" in flat and depth < _DEEPEST:
            inner = {k: self.sample(v, depth + 1) for k, v in flat["properties"].items()}
            return inner | self._of_parts(flat, depth)
        if words := self._words(flat):
            return words[0]
        if parts and depth < _DEEPEST:
            return self._of_parts(flat, depth) or self.sample(parts[0], depth + 1)
        if "items" in flat and depth < _DEEPEST:
            return [self.sample(flat["items"], depth + 1)]
        return _FORMATS.get(flat.get("format", ""), _OF_TYPE.get(flat.get("type", ""), "word"))

    def _of_parts(self, flat: Schema, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for part in flat.get("allOf", ()):
            value = self.sample(part, depth + 1)
            found |= value if isinstance(value, dict) else {}
        return found

    def _flat(self, schema: Schema) -> Schema:
        if "$ref" not in schema:
            return schema
        name = schema["$ref"].rpartition("/")[2]
        found: Schema = self._document["components"]["schemas"][name]
        return self._flat(found)


def with_value(body: Any, steps: tuple[Step, ...], value: Any) -> Any:
    """A body with another value at a place; what is on the way is made if it is missing."""
    if not steps:
        return value
    step, *rest = steps
    if isinstance(step, int):
        inner = body[0] if isinstance(body, list) and body else None
        return [with_value(inner, tuple(rest), value)]
    known = body if isinstance(body, dict) else {}
    return {**known, step: with_value(known.get(step), tuple(rest), value)}
