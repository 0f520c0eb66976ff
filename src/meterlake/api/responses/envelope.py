"""What answers have in common."""

from pydantic import WithJsonSchema

from meterlake.model.entity import Value
from meterlake.model.fields import Id, Instant, Integer, Text


def response_of(name: str) -> WithJsonSchema:
    """Stands for a component that has no class: the response of a resource."""
    return WithJsonSchema({"x-component": name})


class Envelope(Value):
    """What surrounds the fields of everything that is stored."""

    id: Id
    version: Integer | None = None
    created_by: Text | None = None
    dt_created: Instant | None = None
    last_modified_by: Text | None = None
    dt_last_modified: Instant | None = None
