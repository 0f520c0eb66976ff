"""What a mapping says of a column beside its name: an instant's form, blanks, case; paths in JSON."""

import re
from datetime import datetime, timedelta, timezone
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from meterlake.model.errors import Invalid
from meterlake.model.values.period import zone

Text = Annotated[str, Field(min_length=1, max_length=200)]
EpochUnit = Literal["s", "ms", "us", "µs", "ns"]

# Nanoseconds per unit.
EPOCH_UNITS: Final[dict[str, int]] = {"s": 10**9, "ms": 10**6, "us": 1000, "µs": 1000, "ns": 1}
# Directives that do not depend on the machine's language, and stand for a time.
_DIRECTIVES: Final = frozenset("YymdbBjHIMSfpzaA%")
_SAMPLE: Final = datetime(2026, 11, 24, 13, 45, 12, tzinfo=timezone(timedelta(hours=2)))


class MappingPart(BaseModel):
    """A part of a mapping."""

    # A misspelt member of a mapping would silently lose usage: unknown ones are refused.
    model_config = ConfigDict(extra="forbid", frozen=True)


class ColumnMapping(MappingPart):
    """A column, and how its texts are written."""

    column: Text = Field(description="The column, or the path of a member.")
    trim: bool = Field(default=False, description="Blanks around a text do not count.")
    case: Literal["lower", "upper"] | None = Field(None, description="Texts are written so.")


class InstantMapping(MappingPart):
    """A column of instants that are not written as ISO 8601 in UTC."""

    column: Text = Field(description="The column, or the path of a member.")
    epoch: EpochUnit | None = Field(None, description="Its numbers count these since 1970.")
    format: Text | None = Field(None, description="How it is written, in directives like `%Y`.")
    zone: Text | None = Field(None, description="Where texts without an offset were written.")

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if self.epoch and (self.format or self.zone):
            raise ValueError("an epoch has neither a format nor a zone")
        if self.zone:
            try:
                zone(self.zone)
            except Invalid as error:
                raise ValueError(str(error)) from None
        if self.format:
            _check_format(self.format)
        return self


# How problems call the two ways to name a column; a person sees neither.
TAGS: Final = frozenset({"column", "map"})


def _tag(value: object) -> str:
    return "column" if isinstance(value, str) else "map"


AColumn = Annotated[
    Annotated[Text, Tag("column")] | Annotated[ColumnMapping, Tag("map")], Discriminator(_tag)
]
AnInstant = Annotated[
    Annotated[Text, Tag("column")] | Annotated[InstantMapping, Tag("map")], Discriminator(_tag)
]


def _check_format(form: str) -> None:
    named = re.findall(r"%(.)", form)
    strange = sorted({each for each in named if each not in _DIRECTIVES})
    if strange or (form.endswith("%") and not form.endswith("%%")):
        known = " ".join(f"%{each}" for each in sorted(_DIRECTIVES - {"%"}))
        raise ValueError(f"%{''.join(strange[:1])} of a format is none of {known}")
    try:
        read = datetime.strptime(_SAMPLE.strftime(form), form)  # noqa: DTZ007 - perhaps without
    except ValueError as error:
        raise ValueError(f"no format of a time: {error}") from None
    if read.date() != _SAMPLE.date():
        raise ValueError("a format has a year, a month and a day")


def column_of(mapped: str | ColumnMapping | InstantMapping) -> str:
    """The column that a mapping reads."""
    return mapped if isinstance(mapped, str) else mapped.column


class ChosenMember(NamedTuple):
    """A step of a path to the member of a list whose own member has a text: `[key=tenant.id]`."""

    member: str
    text: str


Step = str | int | ChosenMember

_STEP: Final = re.compile(
    r'(?:^|\.)(?:"(?P<quoted>[^"]+)"|(?P<plain>[^".\[\]]+))'
    r'|\[(?:(?P<index>[0-9]{1,6})|(?P<member>[^="\[\]]+)=(?:"(?P<text>[^"]*)"|(?P<bare>[^"\[\]]*)))\]'
)


def parse_path(column: str) -> tuple[Step, ...]:
    """The steps of a path in JSON; of what is none the text itself is the only one.

    >>> parse_path('resource."service.name"'), parse_path("attributes[key=http.route].value")
    (('resource', 'service.name'), ('attributes', ChosenMember(member='key', text='http.route'), 'value'))
    """
    steps: list[Step] = []
    position = 0
    while position < len(column):
        match = _STEP.match(column, position)
        if match is None:
            return (column,)
        position = match.end()
        if match["index"]:
            steps.append(int(match["index"]))
        elif match["member"]:
            steps.append(ChosenMember(match["member"], match["text"] or match["bare"] or ""))
        else:
            steps.append(match["quoted"] or match["plain"])
    return tuple(steps)
