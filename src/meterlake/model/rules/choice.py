"""Fields of which exactly one is given."""

from typing import Any

from pydantic.alias_generators import to_snake

from meterlake.model.errors import Invalid


def exactly_one(entity: Any, first: str, second: str) -> None:
    """Refuse both, and neither, of two fields that exclude each other.

    Raises:
        Invalid: Both or none of them has a value.
    """
    values = [getattr(entity, to_snake(name)) for name in (first, second)]
    if (values[0] is None) is (values[1] is None):
        raise Invalid(first, values[0], f"give exactly one of {first} and {second}")
