"""Puts examples and meanings into a built document: of members, parameters, bodies and answers."""

import re
from typing import Any, Final

from meterlake.api.openapi.descriptions import parameter_text
from meterlake.api.openapi.examples import (
    ANSWERS,
    BODIES,
    Examples,
    request_example,
    response_example,
)
from meterlake.model.configuration.field_descriptions import meaning, table_of
from meterlake.model.resources import RESOURCES
from meterlake.model.values import wire
from meterlake.model.values.entity import Entity

Schema = dict[str, Any]

_JSON: Final = "application/json"
_UPDATES: Final = ("Put", "Update")
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def with_examples(document: Schema) -> Schema:
    """The document with what a reader wants to know of each of its parts."""
    schemas = document["components"]["schemas"]
    described = {name: _with_meanings(name, schema) for name, schema in schemas.items()}
    known: dict[str, Any] = {**BODIES, **ANSWERS}
    for resource in RESOURCES:
        if resource.area != "state":
            known[f"{resource.schema}Request"] = request_example(resource)
            known[f"{resource.schema}Response"] = response_example(resource)
    known_examples = {name: wire.to_plain(each) for name, each in known.items()}
    examples = Examples(described, known_examples)
    for item in document["paths"].values():
        for operation in item.values():
            _complete(operation, examples)
    return {**document, "components": {**document["components"], "schemas": described}}


def _complete(operation: Schema, examples: Examples) -> None:
    for each in operation["parameters"]:
        each["description"] = parameter_text(each["name"])
        example = examples.of(each["schema"], each["name"])
        each["example"] = each["name"] if example is None else example
    body = operation.get("requestBody", {})
    for part in (body, *operation["responses"].values()):
        for kind, media in part.get("content", {}).items():
            if kind != "*/*" and "example" not in media:
                media["example"] = examples.of(media["schema"])
    # An update names the version that it replaces.
    media = body.get("content", {}).get(_JSON)
    if media and operation["operationId"].startswith(_UPDATES) and examples.has_version(media):
        media["example"] = {**media["example"], "version": 1}


def _with_meanings(name: str, schema: Schema) -> Schema:
    if "properties" not in schema:
        return schema
    stem = name.removesuffix("Request").removesuffix("Response")
    table = table_of(_KINDS[stem]) if stem in _KINDS else _snake(stem)
    properties = {
        member: _with_description(each, _meaning(table, member))
        for member, each in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def _with_description(schema: Schema, text: str) -> Schema:
    if "description" in schema or not text:
        return schema
    if "$ref" in schema:
        return {"allOf": [schema], "description": text}
    return {**schema, "description": text}


def _meaning(table: str, member: str) -> str:
    found = _ENVELOPE.get(member) or meaning(table, _snake(member))
    if found is not None:
        # What is NULL in a table is absent in a document.
        return found.replace("NULL", "absent")
    return parameter_text(member) if member.endswith(("Id", "Ids")) else ""


def _snake(name: str) -> str:
    return _WORD.sub("_", name).lower()


_KINDS: Final[dict[str, type[Entity]]] = {each.schema: each.entity for each in RESOURCES}
_ENVELOPE: Final = {
    "createdBy": "Who created it.",
    "dtCreated": "When it was created.",
    "lastModifiedBy": "Who changed it last.",
    "dtLastModified": "When it was changed last.",
    "nextToken": "Leads to the next page; absent on the last one.",
}
