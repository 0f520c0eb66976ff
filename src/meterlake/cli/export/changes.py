"""Schedules and destinations of exports, made and changed by the options of commands."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from functools import partial
from typing import Any, Final

from meterlake.cli.export.documents import ScheduleDefinition, Selected, schedule_document
from meterlake.cli.shell.options import as_options
from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.exports import ExportSchedule
from meterlake.model.errors import NotFound, Required
from meterlake.model.values.entity import Record
from meterlake.pipeline.export import control
from meterlake.stores import Organization
from meterlake.stores.state import Reader

_SELECTED: Final = frozenset(each.name for each in fields(Selected))
_CLOCK: Final = ("scheduleType", "period", "offset", "cronExpression")
# The fields that an option sets: another clock leaves nothing of the old one.
_FIELDS: Final = {
    "name": ("name",),
    "code": ("code",),
    "format": ("exportFileFormat",),
    "every": _CLOCK,
    "cron": _CLOCK,
    "offset": ("offset",),
    "destinations": ("destinationIds",),
    "types": ("operationalDataTypes", "focus"),
    "time_period": ("timePeriod",),
    "meters": ("meterIds",),
    "accounts": ("accountIds",),
    "filters": ("dimensionFilters",),
    "aggregations": ("aggregations",),
    "groups": ("groups",),
}


def create_schedule(
    organization: Organization, author: str, options_given: ScheduleDefinition
) -> dict[str, Any]:
    """Make a schedule; its first job is made with it, unless it is disabled.

    Raises:
        Invalid: A rule is broken.
        NotFound: A meter, an account or a destination does not exist.
        Conflict: The code is taken.
    """
    with as_options():
        with organization.reading() as reader:
            document = schedule_document(reader, options_given)
        return control.create_schedule(organization, author, document)


def schedule_definition(options: Mapping[str, Any]) -> ScheduleDefinition:
    """A schedule in words.

    Args:
        options: Options by their names, those of `Selected` among those of `ScheduleDefinition`.
    """
    chosen = {name: value for name, value in options.items() if name in _SELECTED}
    others = {name: value for name, value in options.items() if name not in _SELECTED}
    return ScheduleDefinition(**others, selected=Selected(**chosen))


def update_schedule(
    organization: Organization, author: str, name: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Change what options give of a schedule, and nothing else; its source stays.

    Args:
        organization: The organization.
        author: Who changes it.
        name: Its code or id.
        options: As `schedule_words` takes them; None and () empty what was there.

    Raises:
        Required: No option is given.
        Invalid: A rule is broken.
        NotFound: There is no such schedule, or no such meter, account or destination.
        Conflict: The code is taken, or somebody else changed the schedule meanwhile.
    """
    _require_options(options)
    with as_options(partial(_code_of_meter, organization), code="--code"):
        changes = partial(_changes, options)
        return control.update_schedule(organization, author, name, changes)


def create_destination(
    organization: Organization, author: str, document: dict[str, Any]
) -> dict[str, Any]:
    """Make a destination from a document of the wire.

    Raises:
        Invalid: A field or a rule is broken.
        Conflict: The code is taken.
    """
    with as_options():
        return control.create_destination(organization, author, document)


def update_destination(
    organization: Organization, author: str, name: str, changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Change fields of a destination, and nothing else; its type stays.

    Raises:
        Required: No option is given.
        Invalid: A field or a rule is broken.
        NotFound: There is no such destination.
        Conflict: The code is taken, or somebody else changed the destination meanwhile.
    """
    _require_options(changes)
    with as_options(code="--code"):
        return control.update_destination(organization, author, name, changes)


def _changes(
    options: Mapping[str, Any], reader: Reader, before: Record[ExportSchedule]
) -> dict[str, Any]:
    source = before.entity.source_type.lower()
    options_given = schedule_definition({"code": before.entity.code, "source": source, **options})
    document = schedule_document(reader, options_given)
    return {field: document.get(field) for option in options for field in _FIELDS[option]}


def _code_of_meter(organization: Organization, text: str) -> str:
    """The code of the meter of an id; another text as it is."""
    with suppress(NotFound), organization.reading() as reader:
        return reader.get(Meter, text).entity.code
    return text


def _require_options(options: Mapping[str, Any]) -> None:
    if not options:
        raise Required("an option that says what changes, such as --name,")
