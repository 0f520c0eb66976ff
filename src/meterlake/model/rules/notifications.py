"""Rules of notifications and scheduled events."""

import re
from typing import Final

from meterlake.model.errors import Invalid
from meterlake.model.notifications import ScheduledEventConfiguration
from meterlake.model.rules.proposed import Proposed

_NAME: Final = re.compile(r"scheduled\.([a-z]+)\.([^\s.]+)")
_WORD: Final = re.compile(r"[A-Za-z]+")


def scheduled_name_says_entity(new: Proposed[ScheduledEventConfiguration]) -> None:
    """The name is `scheduled.<entity>.<name of its own>`, and the entity is the one it looks at."""
    for name in ("entity", "field"):
        value = getattr(new.entity, name)
        if not _WORD.fullmatch(value):
            raise Invalid(name, value, "a word such as Bill or endDate")
    match = _NAME.fullmatch(new.entity.name)
    entity = new.entity.entity.lower()
    if match is None or match.group(1) != entity:
        raise Invalid("name", new.entity.name, f"scheduled.{entity}.<a name without dots>")
