"""Tells in which ways two OpenAPI documents say different things, a line for each."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Schema = dict[str, Any]

LIMITS = (
    "type",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
    "maxProperties",
)
JSON = "application/json"


@dataclass
class Comparison:
    """Ours against theirs; `differences()` gives lines such as `X.name maxLength: 200 -> 100`."""

    theirs: Schema
    ours: Schema
    _seen: set[str] = field(default_factory=set)

    def differences(self) -> Iterator[str]:
        for path, item in self.theirs["paths"].items():
            for method, operation in item.items():
                found = self.ours["paths"].get(path, {}).get(method)
                if found is None:
                    yield f"{method.upper()} {path} is missing"
                    continue
                if found["operationId"] != operation["operationId"]:
                    yield f"{method.upper()} {path} is called {found['operationId']}"
                if "200" in found["responses"]:
                    yield from self._operation(operation, found)

    def _operation(self, theirs: Schema, ours: Schema) -> Iterator[str]:
        name = theirs["operationId"]
        yield from self._parameters(name, theirs, ours)
        for what, get in (("takes", _body), ("gives", _answer)):
            one, other = get(theirs), get(ours)
            if (one is None) != (other is None):
                yield f"{name} {what}: {_title(one)} -> {_title(other)}"
            elif one is not None and other is not None:
                yield from self.compare(f"{name} {what}", one, other)
        required = [each.get("requestBody", {}).get("required", False) for each in (theirs, ours)]
        if required[0] != required[1]:
            yield f"{name} body required: {required[0]} -> {required[1]}"

    def _parameters(self, name: str, theirs: Schema, ours: Schema) -> Iterator[str]:
        one, other = (
            {(each["in"], each["name"]): each for each in operation.get("parameters", ())}
            for operation in (theirs, ours)
        )
        for key in [*one, *(key for key in other if key not in one)]:
            place = f"{name}?{key[1]}"
            if key not in other:
                yield f"{place} is missing"
            elif key not in one:
                yield f"{place} is extra"
            else:
                if bool(one[key].get("required")) != bool(other[key].get("required")):
                    yield f"{place} required"
                yield from self.compare(place, one[key]["schema"], other[key]["schema"])

    def compare(self, place: str, theirs: Schema, ours: Schema) -> Iterator[str]:
        one, other = self._flat(theirs, self.theirs), self._flat(ours, self.ours)
        if _is_page(one) != _is_page(other):
            yield f"{place}: {one.get('$name')} -> {other.get('$name')}"
            return
        if "$name" in one:
            place = _names(one, other)
            if place in self._seen:
                return
            self._seen.add(place)
        for key in LIMITS:
            if one.get(key) != other.get(key):
                yield f"{place} {key}: {one.get(key)} -> {other.get(key)}"
        yield from self._members(place, one, other)
        for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
            yield from self._inner(place + mark, one.get(key), other.get(key))

    def _inner(self, place: str, one: Any, other: Any) -> Iterator[str]:
        if isinstance(one, dict) and isinstance(other, dict):
            yield from self.compare(place, one, other)
        elif isinstance(one, dict) != isinstance(other, dict):
            yield f"{place}: {_title(one)} -> {_title(other)}"

    def _members(self, place: str, one: Schema, other: Schema) -> Iterator[str]:
        theirs, ours = one.get("properties", {}), other.get("properties", {})
        for name in [*theirs, *(name for name in ours if name not in theirs)]:
            inner = f"{place}.{name}"
            if name not in ours:
                yield f"{inner} is missing"
            elif name not in theirs:
                yield f"{inner} is extra"
            else:
                required = [name in each.get("required", ()) for each in (one, other)]
                if required[0] != required[1]:
                    yield f"{inner} required: {required[0]} -> {required[1]}"
                yield from self.compare(inner, theirs[name], ours[name])

    def _flat(self, schema: Schema, document: Schema) -> Schema:
        """The schema with references followed and parts put together."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return {**self._flat(document["components"]["schemas"][name], document), "$name": name}
        found: Schema = {}
        for part in schema.get("allOf", ()):
            found = _both(found, self._flat(part, document))
        if "anyOf" in schema:
            found = _both(found, _either([self._flat(each, document) for each in schema["anyOf"]]))
        own = {key: value for key, value in schema.items() if key not in {"allOf", "anyOf"}}
        return _ordered(_both(found, own))


def _names(one: Schema, other: Schema) -> str:
    found, ours = one["$name"], other.get("$name")
    return found if ours in {None, found} else f"{found}/{ours}"


def _is_page(schema: Schema) -> bool:
    return {"data", "nextToken"} == set(schema.get("properties", ()))


def _both(one: Schema, other: Schema) -> Schema:
    return {
        **one,
        **other,
        **(
            {"properties": {**one.get("properties", {}), **other.get("properties", {})}}
            if "properties" in one or "properties" in other
            else {}
        ),
        "required": [*one.get("required", ()), *other.get("required", ())],
    }


def _either(choices: list[Schema]) -> Schema:
    types = {each.get("type") for each in choices}
    if types == {"object"}:
        properties: Schema = {}
        for each in choices:
            properties |= each.get("properties", {})
        required = set.intersection(*(set(each.get("required", ())) for each in choices))
        return {"type": "object", "properties": properties, "required": sorted(required)}
    # An integer is a number.
    named = sorted(each for each in types - {"integer"} if each)
    return {"type": " or ".join(named)}


def _ordered(schema: Schema) -> Schema:
    return {**schema, "enum": sorted(schema["enum"])} if "enum" in schema else schema


def _body(operation: Schema) -> Schema | None:
    return operation.get("requestBody", {}).get("content", {}).get(JSON, {}).get("schema")


def _answer(operation: Schema) -> Schema | None:
    return operation["responses"]["200"].get("content", {}).get(JSON, {}).get("schema")


def _title(schema: Any) -> str:
    if not isinstance(schema, dict):
        return str(schema)
    return schema.get("$ref", schema.get("type", "anything")).rpartition("/")[2]
