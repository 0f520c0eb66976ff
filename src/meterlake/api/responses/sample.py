"""The answer about the sample."""

from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Integer, Text


class SampleResponse(Value):
    """What the sample brings."""

    month: Text
    entities: Integer
    files: Integer
