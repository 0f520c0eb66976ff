"""What is told to others when something happens, and what happens by the calendar."""

from typing import Annotated, Final

from pydantic import Field

from meterlake.model.configuration.queries import Label
from meterlake.model.values.entity import Entity
from meterlake.model.values.fields import Code, Flag, Integer, LongText

# Days between a date and its scheduled event: ten years.
OFFSET_MAX: Final = 3_660


class NotificationConfiguration(Entity):
    """Goes out for events of one type: for all, or for those for which a calculation holds."""

    name: Label
    description: Label
    code: Code
    event_name: Label
    active: Flag = True
    always_fire_event: Flag = False
    calculation: LongText | None = None


class ScheduledEventConfiguration(Entity):
    """An event some days after, or before, a date of an entity: `scheduled.bill.reminder`."""

    name: Label
    entity: Label
    field: Label
    offset: Annotated[Integer, Field(ge=-OFFSET_MAX, le=OFFSET_MAX)] = Field(
        description="Days after the date; before it if negative."
    )
