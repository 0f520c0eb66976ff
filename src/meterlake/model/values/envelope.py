"""What every answer about something stored has in common."""

from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Id, Instant, Integer, Text


class Envelope(Value):
    """What surrounds the fields of everything that is stored."""

    id: Id
    version: Integer | None = None
    created_by: Text | None = None
    dt_created: Instant | None = None
    last_modified_by: Text | None = None
    dt_last_modified: Instant | None = None
