"""What somebody may have meant who named something that is not there: "did you mean 'acme'?"."""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from meterlake.model.calculation.mistakes import nearest
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.errors import Invalid, MeterlakeError, NotFound
from meterlake.model.resources import RESOURCES
from meterlake.pipeline.events.events import list_event_types
from meterlake.pipeline.ingest.rejected_rows import named_meters
from meterlake.stores import Organization
from meterlake.stores.state.ingest.backfills import Backfills
from meterlake.stores.state.ingest.inboxes import Inboxes

_RECENT: Final = 1000
_KINDS: Final = {
    row.entity.__name__.casefold(): row.entity
    for row in RESOURCES
    if "code" in row.entity.model_fields
}
_ONE_OF: Final = "it must be one of "
_A_FIELD: Final = "a meter and one of its fields"


class _Meant(str):
    """A name that is meant for certain, however little it looks like what was given."""

    __slots__ = ()


def with_suggestion(organization: Organization, error: MeterlakeError) -> MeterlakeError:
    """An error that names the nearest of what there is, if it is about a name that is unknown."""
    with suppress(MeterlakeError):  # What cannot be looked up is not what went wrong.
        if "did you mean" in str(error):  # Who raised it knew what is near.
            return error
        if isinstance(error, NotFound):
            kind, name, hint = error.args
            found = _near(str(name), _names(organization, str(kind), str(name)))
            return NotFound(kind, name, f"{hint}{_question(found)}") if found else error
        if type(error) is Invalid:
            field, value, rule = error.args
            found = _near(str(value), _allowed_names(organization, str(rule)))
            return Invalid(field, value, f"{rule}{_question(found)}") if found else error
        return error
    return error


def _question(found: str) -> str:
    return f"; did you mean {str(found)!r}?"


def _near(name: str, known: Iterable[str]) -> str | None:
    names = [each for each in known if each and each != name]
    meant = next((each for each in names if isinstance(each, _Meant)), None)
    if meant is not None:
        return meant
    # The beginning of an id, or of a long code, is less like it than many others.
    begins = [each for each in names if name and each.casefold().startswith(name.casefold())]
    return begins[0] if len(begins) == 1 else nearest(name, names)


def _names(organization: Organization, kind: str, name: str) -> Iterable[str]:
    entity = _KINDS.get(kind.replace(" ", "").casefold())
    if entity is not None:
        with organization.reading() as reader:
            return reader.codes(entity)
    found = _OTHERS.get(kind)
    return found(organization, name) if found else ()


def _sources(organization: Organization, name: str) -> Iterable[str]:
    """The identities of the newest sources; a file's name stands for its newest one."""
    with organization.lake.reader() as connection:
        rows = connection.execute(
            "SELECT left(identity, 12), name, delivery FROM lake.source"
            f" ORDER BY finished_at DESC LIMIT {_RECENT}"
        ).fetchall()
    named = next((identity for identity, file, _ in rows if file == name), None)
    if named is not None:
        return [_Meant(named)]
    return [text for row in rows for text in row]


def _suggest_rejected(organization: Organization, name: str) -> Iterable[str]:
    identity, colon, row = name.partition(":")
    return [f"{each}{colon}{row}" for each in _sources(organization, identity)]


def _aggregations(organization: Organization, _: str) -> Iterable[str]:
    with organization.reading() as reader:
        return [*reader.codes(Aggregation), *reader.codes(CompoundAggregation)]


def _jobs(organization: Organization, _: str) -> Iterable[str]:
    return [job.id for job in organization.state.jobs.recent(organization.id, limit=_RECENT)]


def _files(_: Organization, name: str) -> Iterable[str]:
    path = Path(name)
    try:
        return [str(path.with_name(each.name)) for each in path.parent.iterdir()]
    except OSError:
        return ()


_OTHERS: Final[dict[str, Callable[[Organization, str], Iterable[str]]]] = {
    "source": _sources,
    "source or job": _sources,
    "rejected row": _suggest_rejected,
    "event type": lambda organization, _: list_event_types(organization)["events"],
    "configured or rejected meter": lambda organization, _: sorted(named_meters(organization)),
    "simple or compound aggregation": _aggregations,
    "job": _jobs,
    "export job": _jobs,
    "backfill": lambda organization, _: Backfills(organization.state, organization.id).ids(),
    "inbox": lambda organization, _: [
        each.url for each in Inboxes(organization.state).all(organization.id)
    ],
    "file": _files,
    "mapping file": _files,
}


def _allowed_names(organization: Organization, rule: str) -> Iterable[str]:
    """What a rule names as allowed."""
    if _A_FIELD in rule:
        with organization.reading() as reader:
            return [
                f"{meter.entity.code}.{field.code}"
                for meter in reader.all(Meter)
                for field in meter.entity.all_fields
            ]
    if rule.startswith(_ONE_OF):
        return re.split(r", | or | and ", rule.removeprefix(_ONE_OF))
    return ()
