"""What a document refers to by id exists."""

from meterlake.model.errors import Invalid, NotFound
from meterlake.model.values.entity import Configuration, E, Record


def existing(kind: type[E], location: str, id: str, configuration: Configuration) -> Record[E]:
    """What a place of a document refers to.

    Raises:
        Invalid: There is none; the sentence names the place.
    """
    try:
        return configuration.get(kind, id)
    except NotFound:
        raise Invalid(location, id, f"it must be the id of an existing {kind.__name__}") from None
