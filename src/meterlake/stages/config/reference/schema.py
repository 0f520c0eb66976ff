"""The JSON Schema of configuration files: editors complete names and mark mistakes with it."""

from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from meterlake.model.configuration.examples import EXAMPLES
from meterlake.model.configuration.field_descriptions import field_meaning
from meterlake.model.resources import CONFIG, RESOURCES, Resource
from meterlake.model.values import wire
from meterlake.model.values.entity import Entity
from meterlake.model.values.ids import CODE_MAX
from meterlake.model.values.period import DAY_PATTERN, INSTANT_PATTERN

Schema = dict[str, Any]

# What most editors read.
_DIALECT: Final = "http://json-schema.org/draft-07/schema#"
_REF: Final = "#/definitions/"
# What pydantic calls a bound that it meets behind a validator of ours.
_BOUNDS: Final = {
    "ge": "minimum",
    "le": "maximum",
    "gt": "exclusiveMinimum",
    "lt": "exclusiveMaximum",
}
_INT64: Final = 2**63
# Patterns of most languages do not know \p{L}. This is wider: `config apply` is exact.
_LETTERS: Final = (r"\p{L}", r"A-Za-z\u00aa-\uffff")
_LABEL: Final = (
    "A name for an entity without a code: other entities of the files refer to it by that."
)
_REFERENCE: Final[Schema] = {"type": "string", "minLength": 1}
_DAY: Final = {"format": "date", "pattern": f"^{DAY_PATTERN.pattern}$"}
_DROPPED: Final = frozenset({"title"})


class NumbersAreNumbers(GenerateJsonSchema):
    """Makes schemas in which no text is read as a Decimal."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """A number with its bounds."""
        found: JsonSchemaValue = {"type": "number"}
        self.update_with_validations(found, schema, self.ValidationsMapping.numeric)
        return found


@cache
def configuration_schema() -> Schema:
    """The schema of a whole file: a map of kinds to lists of entities; not to be changed."""
    kinds = [each.entity for each in RESOURCES if each.area == CONFIG]
    _, found = models_json_schema(
        [(kind, "validation") for kind in kinds],
        by_alias=True,
        ref_template=f"{_REF}{{model}}",
        schema_generator=NumbersAreNumbers,
    )
    models = {each.__name__: each for each in models_of(kinds)}
    definitions = {
        name: _definition(schema, models[name]) for name, schema in found["$defs"].items()
    }
    for resource in (each for each in RESOURCES if each.area == CONFIG):
        definitions[resource.kind] = _entity(definitions[resource.kind], resource)
    return {
        "$schema": _DIALECT,
        "title": "meterlake configuration",
        "description": "A file for `meterlake config apply`; several files make one configuration.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "$schema": {"type": "string", "description": "Where editors find this schema."},
            **{each.name: _of_kind(each) for each in RESOURCES if each.area == CONFIG},
        },
        "definitions": dict(sorted(definitions.items())),
    }


def models_of(kinds: list[type[Entity]]) -> Iterator[type]:
    """Classes, and all classes and enums that their fields are made of, each once."""
    seen: set[Any] = set()
    waiting: list[Any] = list(reversed(kinds))
    while waiting:
        each = waiting.pop()
        if not isinstance(each, type):
            waiting += get_args(each)
        elif each not in seen and issubclass(each, BaseModel | Enum):
            seen.add(each)
            yield each
            if issubclass(each, BaseModel):
                waiting += [field.annotation for field in each.model_fields.values()]


def first_sentence(kind: type) -> str:
    """What a kind is, by its docstring."""
    return (kind.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")


def _of_kind(resource: Resource) -> Schema:
    one: Schema = {"$ref": f"{_REF}{resource.kind}"}
    about = first_sentence(resource.entity)
    if resource.singleton:
        return {"description": about, "anyOf": [one, {"type": "null"}]}
    return {"description": about, "type": ["array", "null"], "items": one}


def _entity(schema: Schema, resource: Resource) -> Schema:
    label = {"id": {**_REFERENCE, "maxLength": CODE_MAX, "description": _LABEL}}
    properties = {**({} if resource.singleton else label), **schema["properties"]}
    examples = [wire.to_plain(EXAMPLES[resource.name])]
    if resource.singleton:  # Keys that a file leaves out stay as they are.
        schema = {name: value for name, value in schema.items() if name != "required"}
    return {**schema, "properties": properties, "examples": examples}


def _definition(schema: Schema, kind: type) -> Schema:
    if not issubclass(kind, BaseModel):
        return {**_plain(schema), "description": first_sentence(kind)}
    derived = getattr(kind, "derived_in_files", ())
    required = [name for name in schema.get("required", ()) if name not in derived]
    return {
        "type": "object",
        "description": first_sentence(kind),
        "additionalProperties": False,
        **({"required": required} if required else {}),
        "properties": {
            field.alias or attribute: _field(
                _plain(schema["properties"][field.alias or attribute]),
                _about(kind, attribute, field.description),
                optional=(field.alias or attribute) not in required,
            )
            for attribute, field in kind.model_fields.items()
        },
    }


def _about(kind: type, attribute: str, description: str | None) -> str:
    words = [description or field_meaning(kind, attribute), _references().get((kind, attribute))]
    # What is NULL in a table is absent in a file.
    return " ".join(word for word in words if word).replace("NULL", "absent")


@cache
def _references() -> dict[tuple[type, str], str]:
    """What fields that refer to something hold, in words."""
    names = {each.entity: each.name for each in RESOURCES}
    found: dict[tuple[type, str], str] = {}
    for resource in RESOURCES:
        for by, paths in (("code or `id`", resource.refs), ("code", resource.codes)):
            for path, target in paths.items():
                kind: Any = resource.entity
                *steps, last = path.split(".")
                for step in steps:
                    kind = next(models_of([kind.model_fields[step].annotation]))
                found[kind, last] = f"The {by} of an entity of `{names[target]}`."
    return found


def _field(schema: Schema, about: str, *, optional: bool) -> Schema:
    found = _without_null(schema)
    if "$ref" in found and (optional or about or len(found) > 1):
        # What stands beside a reference counts only for some readers.
        rest = {key: value for key, value in found.items() if key != "$ref"}
        found = {"anyOf" if optional else "allOf": [{"$ref": found["$ref"]}], **rest}
    if optional and "anyOf" in found:
        found["anyOf"] = [*found["anyOf"], {"type": "null"}]
    elif optional and "type" in found:
        found["type"] = [found["type"], "null"]
        if "enum" in found:
            found["enum"] = [*found["enum"], None]
    return {**({"description": about} if about else {}), **found}


def _without_null(schema: Schema) -> Schema:
    found = dict(schema)
    if found.get("default", ...) in (None, [], {}):
        del found["default"]
    if "anyOf" in found:
        choices = [each for each in found.pop("anyOf") if each != {"type": "null"}]
        found = {**choices[0], **found} if len(choices) == 1 else {"anyOf": choices, **found}
    return found


def _plain(schema: Any) -> Any:
    """A schema of pydantic in the words of the dialect."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "uuid":
        return {**_REFERENCE, **{k: v for k, v in schema.items() if k == "description"}}
    if schema.get("format") == "date-time":
        gone = {*_DROPPED, "type", "format"}
        rest = {key: value for key, value in schema.items() if key not in gone}
        instant = {"format": "date-time", "pattern": f"^(?:{INSTANT_PATTERN})$"}
        # In files a day is its beginning.
        return {**rest, "anyOf": [{"type": "string", **each} for each in (instant, _DAY)]}
    found: Schema = {
        str(_BOUNDS.get(key, key)): _plain(value) if isinstance(value, dict | list) else value
        for key, value in schema.items()
        if key not in _DROPPED
    }
    if "pattern" in found:
        found["pattern"] = found["pattern"].replace(*_LETTERS)
    if "const" in found:
        found["enum"] = [found.pop("const")]
    return _with_default(_without_wide_bounds(found))


def _without_wide_bounds(schema: Schema) -> Schema:
    bounds = _BOUNDS.values()
    return {
        key: value
        for key, value in schema.items()
        if key not in bounds or not isinstance(value, int) or abs(value) < _INT64
    }


def _with_default(schema: Schema) -> Schema:
    if schema.get("type") == "number" and isinstance(schema.get("default"), str):
        return {**schema, "default": wire.loads(schema["default"])}
    return schema
