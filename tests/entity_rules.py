"""How tests try the fields of an entity: one good document, and one change at a time."""

import pytest
from pydantic import ValidationError

from meterlake.model.values.problems import problems


def refused(kind, document, **changes):
    """The places at which a changed document is refused; None takes a field away."""
    with pytest.raises(ValidationError) as caught:
        kind.from_wire({**document, **changes})
    return {str(problem.args[0]) for problem in problems(caught.value)}


def required(kind, document):
    """The fields without which a document is refused."""
    return {
        place
        for name in document
        if not _accepted(kind, {key: value for key, value in document.items() if key != name})
        for place in [name]
    }


def _accepted(kind, document):
    try:
        kind.from_wire(document)
    except ValidationError:
        return False
    return True
