"""Assembles the API's document from the tables of operations, resources and shapes."""

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from pydantic import BaseModel

from meterlake.api.openapi import descriptions, schemas
from meterlake.api.openapi.exemplify import with_examples
from meterlake.api.openapi.schemas import (
    REF,
    Schema,
    components,
    name_of,
    ref,
    relax_properties,
    without,
)
from meterlake.api.openapi.shapes import MORE_QUERY, SHAPES, VERSIONED, Shape
from meterlake.api.responses.computed import COMPUTED
from meterlake.api.server.call import ORGANIZATION, Operation
from meterlake.api.server.idempotency_keys import KEY_MAX
from meterlake.model.resources import RESOURCES, Resource
from meterlake.model.resources.resource import SINGLETON, Verb
from meterlake.model.values import wire
from meterlake.model.values.entity import Envelope

_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_VERSION: Final[Schema] = {
    "type": "integer",
    "format": "int64",
    "description": "The version that the change is based on; only an update needs it.",
}
_ERROR: Final[Schema] = {
    "description": "What was wrong, in one sentence.",
    "content": {
        _JSON: {
            "schema": {
                "type": "object",
                "required": ["message"],
                "properties": {"message": {"type": "string"}},
            },
            "example": {"message": "accounts[0].name is required"},
        }
    },
}
_ANY_TYPE: Final[Schema] = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
_FILE: Final[Schema] = {"content": _ANY_TYPE, "required": True}
_LATER: Final[Schema] = {
    "501": {
        "description": "A later version does it.",
        "content": {
            _JSON: {
                **_ERROR["content"][_JSON],
                "example": {"message": "bills is not available in this version"},
            }
        },
    }
}
_ERRORS: Final[Schema] = {
    status: {"$ref": "#/components/responses/Error"} for status in ("4XX", "5XX")
}
_INFO: Final[Schema] = {
    "title": "meterlake",
    "version": "1.0",
    "description": (
        "Usage metering and billing: measurements in, exact bills out.\n\n"
        "The Config API keeps products, prices and customers; the Ingest API takes measurements."
        " Programs that use the public `m3ter` SDK work with another base URL, key, secret and"
        " organization. Get a token with an access key (`GenerateToken`) and send it as"
        " `Authorization: Bearer`.\n\n"
        'Errors are `{"message": "..."}`: which field, which value, which rule. Examples show one'
        " organization, a provider of content delivery with one customer."
    ),
}
_SECURITY: Final[Schema] = {
    "OAuth2": {
        "type": "oauth2",
        "flows": {
            "clientCredentials": {
                "tokenUrl": "/oauth/token",
                "scopes": {"m3ter-resources/m3ter-scope": "everything that the policies allow"},
            }
        },
    }
}


_KEY: Final[Schema] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_MAX},
}

# Answered without knowing who asks, so these are not among the operations that need permission.
TOKEN: Final = Operation("GenerateToken", "POST", "/oauth/token", "", "")
_OPEN: Final = (
    TOKEN,
    Operation("PutUploadFile", "PUT", "/uploads/{token}", "", ""),
    Operation("GetDownload", "GET", "/downloads/{token}", "", ""),
    Operation("GetCustomerPage", "GET", "/customerpages/{token}", "", ""),
    Operation("GetCustomerPageUsage", "GET", "/customerpages/{token}/usage", "", ""),
    Operation("GetCustomerPageSpend", "GET", "/customerpages/{token}/spend", "", ""),
    Operation("ListCustomerPageBills", "GET", "/customerpages/{token}/bills", "", ""),
    Operation("GetCustomerPageBill", "GET", "/customerpages/{token}/bills/{id}", "", ""),
    Operation(
        "GetCustomerPageDocument", "GET", "/customerpages/{token}/bills/{id}/document", "", ""
    ),
    Operation("GetKeySet", "GET", "/.well-known/jwks.json", "", ""),
    Operation("GetLiveness", "GET", "/healthz", "", ""),
    Operation("GetReadiness", "GET", "/readyz", "", ""),
    Operation("GetMetrics", "GET", "/metrics", "", ""),
)


def build(operations: Iterable[Operation]) -> Schema:
    """The document of some operations.

    Raises:
        ValueError: A shape names a component that does not exist, or two have the same name.
    """
    listed = list(operations)
    declared = _standard_shapes()
    used = {
        each.id: SHAPES.get(each.id) or declared.get((each.method, each.path))
        for each in listed
        if each.handler is not None or each in _OPEN
    }
    paths: Schema = {}
    for each in listed:
        shape = used.get(each.id)
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, shape)
    tags = {tag for item in paths.values() for each in item.values() for tag in each["tags"]}
    document = {
        "openapi": "3.0.3",
        "info": _INFO,
        "servers": [{"url": "/", "description": "The server that serves this document."}],
        "tags": [each for each in descriptions.tags() if each["name"] in tags],
        "security": [{"OAuth2": []}],
        "paths": paths,
        "components": {
            "schemas": _schemas(shape for shape in used.values() if shape is not None),
            "responses": {"Error": _ERROR},
            "securitySchemes": _SECURITY,
        },
    }
    return with_examples(_check_document(document))


def _operation(operation: Operation, shape: Shape | None) -> Schema:
    members = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    text = {"type": "string"}
    path_parameters = [
        {"name": each, "in": "path", "required": True, "schema": text} for each in members
    ]
    found: Schema = {
        "operationId": operation.id,
        **descriptions.describe_operation(operation),
        "parameters": path_parameters,
    }
    if operation in _OPEN:
        found["security"] = []
    if shape is None:
        return {**found, "responses": {**_LATER, **_ERRORS}}
    found["parameters"] += [each.to_document() for each in _query_of(operation, shape)]
    if operation.method == "POST" and operation not in _OPEN:
        found["parameters"].append({**_KEY})
    if shape.takes is not None:
        media = {"schema": ref(_name(shape.takes))}
        content = {_JSON: media, **({_FORM: media} if shape.form else {})}
        found["requestBody"] = {"content": content, "required": not shape.optional}
    elif shape.file:
        found["requestBody"] = _FILE
    errors = {status: {**_ERROR, "description": why} for status, why in shape.errors.items()}
    found["responses"] = {"200": _answer(shape), **errors, **_ERRORS}
    return found


def _query_of(operation: Operation, shape: Shape) -> tuple[schemas.Parameter, ...]:
    paging = schemas.paging(shape.page) if shape.page else ()
    return (*paging, *shape.query, *MORE_QUERY.get(operation.id, ()))


def query_names(operation: Operation) -> frozenset[str]:
    """The names of the parameters of the query that an operation has."""
    place = (operation.method, operation.path)
    shape = SHAPES.get(operation.id) or _standard_shapes().get(place)
    return frozenset(() if shape is None else (each.name for each in _query_of(operation, shape)))


def _answer(shape: Shape) -> Schema:
    if shape.sends_file:
        return {"description": "The file.", "content": _ANY_TYPE}
    if shape.gives is None:
        return {"description": "Done."}
    name = _name(shape.gives)
    schema = ref(_page_name(name)) if shape.page else ref(name)
    if shape.several:
        schema = {"type": "array", "items": schema}
    return {"description": "Done.", "content": {_JSON: {"schema": schema}}}


def _name(what: type[BaseModel] | str) -> str:
    return what if isinstance(what, str) else name_of(what)


def _page_name(name: str) -> str:
    return f"Paginated{name}Data"


@cache
def _standard_shapes() -> dict[tuple[str, str], Shape]:
    return {place: shape for each in RESOURCES for place, shape in _shapes_of(each).items()}


def _shapes_of(resource: Resource) -> dict[tuple[str, str], Shape]:
    takes, gives = f"{resource.schema}Request", f"{resource.schema}Response"
    every = f"{ORGANIZATION}/{resource.path}"
    one = every if resource.singleton else f"{every}/{{id}}"
    as_of = () if resource.singleton else (schemas.AS_OF,)
    found: dict[Verb, tuple[tuple[str, str], Shape]] = {
        "create": (("POST", every), Shape(takes=takes, gives=gives)),
        "retrieve": (("GET", one), Shape(gives=gives, query=as_of)),
        "update": (("PUT", one), Shape(takes=takes, gives=gives)),
        "delete": (("DELETE", one), Shape(gives=gives)),
        "list": (
            ("GET", every),
            Shape(gives=_page_name(gives), query=schemas.of_list(resource)),
        ),
        "search": (
            ("GET", f"{every}/search"),
            Shape(gives=_page_name(gives), query=schemas.of_search(resource)),
        ),
    }
    # A singleton is retrieved where others are listed.
    return dict(found[verb] for verb in (SINGLETON if resource.singleton else found))


def _schemas(shapes: Iterable[Shape]) -> dict[str, Schema]:
    classes = [each for shape in shapes for each in (shape.takes, shape.gives)]
    models = {name_of(each): each for each in classes if isinstance(each, type)}
    entities = {f"{each.schema}Request": each.entity for each in RESOURCES}
    more: dict[str, type[BaseModel]] = {Envelope.__name__: Envelope}
    more |= {each.__name__: each for each in COMPUTED.values()}
    found = components({**models, **entities, **more})
    members = {name: found.pop(name)["properties"] for name in more}
    computed = {name: members[each.__name__] for name, each in COMPUTED.items()}
    for resource in RESOURCES:
        request = found[f"{resource.schema}Request"]
        fields = relax_properties(request["properties"])
        found[f"{resource.schema}Request"] = _with_version(without(request, resource.path_members))
        required: Schema = {"required": ["id", *request.get("required", ())]}
        if resource.schema == "Support":  # One that was never given is an empty document.
            required = {}
        found[f"{resource.schema}Response"] = {
            "type": "object",
            **required,
            "properties": {**members["Envelope"], **fields, **computed.get(resource.schema, {})},
        }
    for name in VERSIONED:
        if name in found:
            found[name] = _with_version(found[name])
    pages = {
        _page_name(name): {
            "type": "object",
            "properties": {
                "data": {"type": "array", "items": ref(name)},
                "nextToken": {"type": "string"},
            },
        }
        for name in found
        if name.endswith("Response")
    }
    return dict(sorted({**found, **pages}.items()))


def _with_version(schema: Schema) -> Schema:
    return {**schema, "properties": {**schema["properties"], "version": _VERSION}}


def _check_document(document: Schema) -> Schema:
    schemas = document["components"]["schemas"]
    missing = set(_references(document["paths"])) | set(_references(schemas))
    missing -= set(schemas)
    if missing:
        raise ValueError(f"no such components: {sorted(missing)}")
    return {
        **document,
        "components": {**document["components"], "schemas": _referenced_schemas(document)},
    }


def _referenced_schemas(document: Schema) -> dict[str, Schema]:
    # Pages that nothing answers with, and what only they are made of, stay out.
    schemas = document["components"]["schemas"]
    found: set[str] = set()
    waiting = set(_references(document["paths"]))
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= set(_references(schemas[name])) - found
    return {name: schema for name, schema in schemas.items() if name in found}


def _references(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        target = value.get("$ref")
        if isinstance(target, str) and target.startswith(REF):
            yield target.removeprefix(REF)
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


@cache
def _of_all() -> Schema:
    # Handlers import what serves this document, so the table is read when it is first asked for.
    from meterlake.api.routes import OPERATIONS  # noqa: PLC0415

    return build((*_OPEN, *OPERATIONS))


def document() -> Schema:
    """The document of the whole API; built once, not to be changed."""
    return _of_all()


@cache
def encode_document() -> bytes:
    """The document as it is served."""
    return wire.dumps(document())
