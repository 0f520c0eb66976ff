"""What stands for components that have no class."""

from pydantic import WithJsonSchema


def response_of(name: str) -> WithJsonSchema:
    """Stands for a component that has no class: the response of a resource."""
    return WithJsonSchema({"x-component": name})
