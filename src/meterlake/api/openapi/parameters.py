"""Query parameters of operations."""

from dataclasses import dataclass
from typing import Any, Final

from meterlake.model.resources import Filter, Resource

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One query parameter; all are optional."""

    name: str
    schema: Schema

    def to_document(self) -> Schema:
        """The parameter as OpenAPI writes it; arrays are joined by commas or repeated."""
        found = {"name": self.name, "in": "query", "required": False, "schema": self.schema}
        return {**found, "style": "form", "explode": True} if _is_array(self.schema) else found


def _is_array(schema: Schema) -> bool:
    return schema.get("type") == "array"


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


def of_list(resource: Resource) -> tuple[Parameter, ...]:
    """What the list of a resource takes."""
    return (*paging(resource.page_max), *(of_filter(each) for each in resource.filters))


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
SEARCHED: Final = (
    text("searchQuery"),
    whole("fromDocument", minimum=0),
    text("operator", "AND", "OR"),
    text("sortBy"),
    text("sortOrder", "ASC", "DESC"),
)


def of_search(resource: Resource) -> tuple[Parameter, ...]:
    """What the search of a resource takes."""
    return (*paging(resource.page_max), *SEARCHED)
