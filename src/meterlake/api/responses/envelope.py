"""What bodies and answers are made of besides the values of the model."""

from pydantic import WithJsonSchema

from meterlake.model.values.entity import Value


def response_of(name: str) -> WithJsonSchema:
    """Stands for a component that has no class: the response of a resource."""
    return WithJsonSchema({"x-component": name})


class ToldBody(Value):
    """A body: a member that it does not have is ignored, and a header says so."""
