"""Bodies of operations of our own whose unknown members are told."""

from meterlake.model.values.entity import Value


class ToldBody(Value):
    """A body: a member that it does not have is ignored, and a header says so."""
