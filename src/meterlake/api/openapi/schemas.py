"""The classes of entities and answers, and query parameters, as schemas of OpenAPI 3.0."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from meterlake.model.configuration.access import PermissionAction, PermissionEffect, TargetType
from meterlake.model.resources import Filter, Resource

Schema = dict[str, Any]

REF: Final = "#/components/schemas/"
# What pydantic calls a bound that it meets behind a validator of ours.
_BOUNDS: Final[dict[str, str]] = {
    "ge": "minimum",
    "le": "maximum",
    "gt": "exclusiveMinimum",
    "lt": "exclusiveMaximum",
}
_EXCLUSIVE: Final[dict[str, str]] = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_INT32: Final = 2**31
_INT64: Final = 2**63
# Where schemas stand in schemas, besides properties.
_INNER: Final = frozenset({"items", "additionalProperties", "allOf", "anyOf", "oneOf"})
_DROPPED: Final = frozenset({"title", "propertyNames", "examples"})
# Classes whose names in the contract of the API are others.
_NAMES: Final = {
    "BalanceTransaction": "BalanceTransactionRequest",
    "Category": "DataFieldCategory",
    "CreditLineItem": "CreditLineItemRequest",
    "DebitLineItem": "DebitLineItemRequest",
    "EndDateBillingEntities": "EndDateBillingEntitiesRequest",
    "GroupTarget": "ResourceGroupItemRequest",
    "IntegrationCredentials": "IntegrationCredentialsRequestBase",
    "LookupTableDataJobType": "JobType",
    "JobStatus": "RunState",
    "KeyChange": "AccessKeyRequest",
    "PriceChange": "PriceChangeRequest",
    "PriceChangePreview": "PriceChangePreviewRequest",
    "PrincipalChoice": "PrincipalPermissionRequest",
    "Reduce": "Aggregation",
    "SignedRequestCredentials": "IntegrationM3terSignedCredentialsRequest",
    "UploadRequest": "GetUploadUrlRequest",
    "UsageQuery": "UsageQueryRequestWithTimePeriod",
    "UserChange": "OrgUserRequest",
}
# Neither Python's patterns nor those of older JavaScript know \p{L}. This is wider: some signs that
# it lets through are refused all the same.
_LETTERS: Final = (r"\p{L}", r"A-Za-z\u00aa-\uffff")
# Enums that the wire writes by name; their values are read as well.
_BY_NAME: Final = {each.__name__: each for each in (PermissionAction, PermissionEffect, TargetType)}
# What an answer promises of a field; limits are for those who write.
_PROMISED: Final = frozenset(
    {"type", "format", "$ref", "allOf", "anyOf", "items", "additionalProperties", "enum"}
)


class _Generator(GenerateJsonSchema):
    """Numbers are numbers: no text is read as a Decimal."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        found: JsonSchemaValue = {"type": "number"}
        self.update_with_validations(found, schema, self.ValidationsMapping.numeric)
        return found


def ref(name: str) -> Schema:
    """A reference to a component."""
    return {"$ref": f"{REF}{name}"}


def name_of(model: type[BaseModel]) -> str:
    """The name of a class in the document."""
    return _NAMES.get(model.__name__, model.__name__)


def components(models: Mapping[str, type[BaseModel]]) -> dict[str, Schema]:
    """The schemas of classes under the given names, and of all that they are made of.

    Raises:
        ValueError: Two different things have the same name.
    """
    wanted: list[tuple[type[BaseModel], Any]] = [
        (model, "validation") for model in dict.fromkeys(models.values())
    ]
    refs, found = models_json_schema(
        wanted, by_alias=True, ref_template="{model}", schema_generator=_Generator
    )
    definitions = found.get("$defs", {})
    names = {each: _short(schema, each) for each, schema in definitions.items()}
    for name, model in models.items():
        names[refs[model, "validation"]["$ref"]] = name
    result: dict[str, Schema] = {}
    for each, definition in definitions.items():
        schema = _plain(definition, names)
        if each in _BY_NAME:
            schema["enum"] = [member.name for member in _BY_NAME[each]]
        if result.setdefault(names[each], schema) != schema:
            raise ValueError(f"two schemas are called {names[each]!r}")
    return result


def relax_properties(properties: Mapping[str, Schema]) -> dict[str, Schema]:
    """The properties as an answer has them: their types without the limits for those who write."""
    return {name: _relax(schema) for name, schema in properties.items()}


def _relax(schema: Schema) -> Schema:
    kept = {key: value for key, value in schema.items() if key in _PROMISED}
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = _relax(kept[key])
    if set(kept) == {"allOf"} and len(kept["allOf"]) == 1:
        return dict(kept["allOf"][0])
    return kept


def _short(definition: Schema, otherwise: str) -> str:
    # Where two classes have the same name, pydantic calls one of them by its module and a number.
    title: str = definition.get("title", otherwise)
    return _NAMES.get(title, title)


def _plain(schema: Any, names: Mapping[str, str]) -> Any:
    """Write a schema, or several, in the words of OpenAPI 3.0."""
    if isinstance(schema, list):
        return [_plain(each, names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "x-component" in schema:
        return ref(schema["x-component"])
    found: Schema = {
        str(_BOUNDS.get(key, key)): _plain(value, names) if key in _INNER else value
        for key, value in schema.items()
        if key not in _DROPPED
    }
    if "properties" in found:
        inner = found["properties"].items()
        found["properties"] = {name: _plain(each, names) for name, each in inner}
    if "pattern" in found:
        found["pattern"] = found["pattern"].replace(*_LETTERS)
    if "$ref" in found:
        found["$ref"] = REF + names[found["$ref"]]
    return _with_reference(_with_default(_with_bounds(_without_null(found))))


def _without_null(schema: Schema) -> Schema:
    # Everywhere on the wire, null counts as absent; absent fields are not shown.
    if "anyOf" not in schema:
        return schema
    choices = [each for each in schema["anyOf"] if each != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**choices[0], **rest} if len(choices) == 1 else {"anyOf": choices, **rest}


def _with_bounds(schema: Schema) -> Schema:
    found = dict(schema)
    if "const" in found:
        found["enum"] = [found.pop("const")]
    for key in ("minimum", "maximum", *_EXCLUSIVE):
        if not isinstance(found.get(key), bool) and abs(found.get(key, 0)) >= _INT64:
            del found[key]
    for key, inclusive in _EXCLUSIVE.items():
        if key in found and not isinstance(found[key], bool):
            found[inclusive] = found[key]
            found[key] = True
    # What was optional comes a second time, with its width.
    counts = found.get("type") == "integer" and "format" not in found
    return _with_width(found) if counts else found


def _with_width(schema: Schema) -> Schema:
    """A whole number says how many bits it needs; bounds that follow from them need no words."""
    found = dict(schema)
    most = found.get("maximum", _INT64) - (1 if found.pop("exclusiveMaximum", False) else 0)
    narrow = most < _INT32 and found.get("minimum", 0) >= -_INT32
    if most < _INT64 - 1 and most != _INT32 - 1:
        found["maximum"] = most
    else:
        found.pop("maximum", None)
    if found.get("minimum") == -_INT32:
        del found["minimum"]
    return {**found, "format": "int32" if narrow else "int64"}


def _with_default(schema: Schema) -> Schema:
    default = schema.get("default")
    if default in (None, [], {}):
        return {key: value for key, value in schema.items() if key != "default"}
    if schema.get("type") == "number":
        number = Decimal(str(default))
        return {**schema, "default": int(number) if number == int(number) else float(number)}
    return schema


def _with_reference(schema: Schema) -> Schema:
    # What stands beside a reference counts only inside an allOf.
    if "$ref" not in schema or len(schema) == 1:
        return schema
    return {
        "allOf": [{"$ref": schema["$ref"]}],
        **{key: value for key, value in schema.items() if key != "$ref"},
    }


def without(schema: Schema, members: Iterable[str]) -> Schema:
    """A schema of an object without some of its members."""
    gone = set(members)
    found = {
        **schema,
        "properties": {k: v for k, v in schema["properties"].items() if k not in gone},
    }
    required = [name for name in schema.get("required", ()) if name not in gone]
    return {
        **{k: v for k, v in found.items() if k != "required"},
        **({"required": required} if required else {}),
    }


@dataclass(frozen=True, slots=True)
class Parameter:
    """One query parameter; all are optional."""

    name: str
    schema: Schema

    def to_document(self) -> Schema:
        """The parameter as OpenAPI writes it; arrays are joined by commas or repeated."""
        found = {"name": self.name, "in": "query", "required": False, "schema": self.schema}
        return (
            {**found, "style": "form", "explode": True}
            if (self.schema.get("type") == "array")
            else found
        )


def text(name: str, *among: str) -> Parameter:
    """A text; one of a few words if there are any."""
    return Parameter(name, {"type": "string", **({"enum": list(among)} if among else {})})


def texts(name: str) -> Parameter:
    """Several texts."""
    return Parameter(name, {"type": "array", "items": {"type": "string"}})


def flag(name: str) -> Parameter:
    """True or false."""
    return Parameter(name, {"type": "boolean"})


def instant(name: str) -> Parameter:
    """An instant; a date stands for its first moment in UTC."""
    return Parameter(name, {"type": "string"})


def whole(name: str, **bounds: int) -> Parameter:
    """A whole number within bounds (`minimum`, `maximum`)."""
    return Parameter(name, {"type": "integer", "format": "int32", **bounds})


def paging(most: int) -> tuple[Parameter, ...]:
    """The parameters of every list."""
    return (whole("pageSize", minimum=1, maximum=most), text("nextToken"))


ADDITIONAL: Final = texts("additional")
AS_OF: Final = instant("asOf")


# What narrows and orders lists of entities and searches.
NARROWED: Final = (
    text("searchQuery"),
    text("operator", "AND", "OR"),
    text("sortBy"),
    text("sortOrder", "ASC", "DESC"),
)


def ordered(*fields: str) -> tuple[Parameter, ...]:
    """What orders a list that few fields can order."""
    return (text("sortBy", *fields), text("sortOrder", "ASC", "DESC"))


def of_list(resource: Resource) -> tuple[Parameter, ...]:
    """What the list of a resource takes."""
    return (
        *paging(resource.page_max),
        *(of_filter(each) for each in resource.filters),
        *NARROWED,
    )


def of_filter(each: Filter) -> Parameter:
    """A declared filter as a parameter."""
    if each.kind == "flag":
        return flag(each.name)
    if each.kind == "instant":
        return instant(each.name)
    if each.kind == "date":
        return instant(each.name)
    return texts(each.name) if each.several else text(each.name)


# What a search takes beside the parameters of every list.
SEARCHED: Final = (whole("fromDocument", minimum=0), *NARROWED)


def of_search(resource: Resource) -> tuple[Parameter, ...]:
    """What the search of a resource takes."""
    return (*paging(resource.page_max), *SEARCHED)
