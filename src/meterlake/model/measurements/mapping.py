"""Mappings: how files that were not made for us become measurements. Declared, never programmed."""

import fnmatch
import hashlib
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, Strict, ValidationError, model_validator

from meterlake.model.errors import Invalid, UnreadableMapping
from meterlake.model.measurements import measurement
from meterlake.model.measurements.mapped_columns import (
    TAGS,
    AColumn,
    AnInstant,
    MappingPart,
    Text,
    column_of,
)
from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.model.values.problems import describe_mismatch

_FIELD_COLUMN: Final = re.compile(rf"(?:{'|'.join(measurement.CATEGORY_KEYS)})\.[^\s.]+")

# Digit by digit, as YAML is read here.
Constant = str | int | Annotated[Decimal, Strict()]


class AccountMapping(MappingPart):
    """Where the account code comes from: exactly one of the three."""

    column: Text | None = Field(None, description="A column of the file.")
    trim: bool = Field(default=False, description="Blanks around a code do not count.")
    case: Literal["lower", "upper"] | None = Field(None, description="Codes are written so.")
    value: Text | None = Field(None, description="The same for every row.")
    filename: Text | None = Field(
        None, description="A regular expression over the file name with a group `account`."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in ("column", "value", "filename") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError("needs exactly one of column, value, filename")
        if self.filename and "account" not in _compile(self.filename).groupindex:
            raise ValueError("the pattern needs a group (?P<account>…)")
        if self.column is None and (self.trim or self.case):
            raise ValueError("trim and case are for a column")
        return self


class When(MappingPart):
    """Which rows become this measurement: all conditions must hold."""

    present: tuple[Text, ...] = Field((), description="Columns that must have a value.")
    absent: tuple[Text, ...] = Field((), description="Columns that must have none.")
    equals: dict[Text, str] = Field(default_factory=dict, description="Columns and their texts.")


class MeasurementRule(MappingPart):
    """One measurement that a row becomes."""

    meter: Text = Field(description="The meter's code.")
    when: When = Field(When(), description="Only for rows that meet these conditions.")
    fields: dict[Text, AColumn] = Field(
        default_factory=dict, description="`<category>.<field>`: the column it is read from."
    )
    constants: dict[Text, Constant] = Field(
        default_factory=dict, description="`<category>.<field>`: the same value for every row."
    )
    defaults: dict[Text, Constant] = Field(
        default_factory=dict,
        description="`<category>.<field>`: the value where the column has none.",
    )

    @model_validator(mode="after")
    def _field_names(self) -> Self:
        for name in (*self.fields, *self.constants, *self.defaults):
            if not _FIELD_COLUMN.fullmatch(name):
                raise ValueError(f"{name!r} is not of the form measure.bytes or what.region")
        unread = set(self.defaults) - set(self.fields)
        if unread:
            raise ValueError(f"defaults without a column: {', '.join(sorted(unread))}")
        return self


class Mapping(MappingPart):
    """A declared way from the rows of one kind of file to measurements."""

    name: Text
    files: tuple[Text, ...] = Field((), description="Patterns of the dropped files it is for.")
    format: Literal["csv", "ndjson", "json", "parquet"] | None = Field(
        None, description="By the file's extension when absent."
    )
    delimiter: str | None = Field(
        None,
        pattern=r"^[\x01-\x09!#-/:-@\[-^`{-~]$",
        description="One ASCII character that is no letter, digit, quote or line break; found in the"
        " first line when absent.",
    )
    nulls: tuple[str, ...] = Field(("",), description="Texts that mean `no value`.")
    account: AccountMapping
    ts: AnInstant = Field(description="The column of the instant.")
    ets: AnInstant | None = Field(None, description="The column of the end instant.")
    uid: tuple[Text, ...] = Field(
        (),
        description="Columns whose texts make the uid, joined by `-`; when absent it follows from"
        " the source's identity and the row.",
    )
    measurements: tuple[MeasurementRule, ...] = Field(min_length=1, max_length=50)

    @property
    def fingerprint(self) -> str:
        """Name and content hash: what the ledger records of the mapping."""
        # A comma was the default of older versions, whose fingerprints stay what they are.
        members = self.model_dump(mode="json") | {"delimiter": self.delimiter or ","}
        # So do those of mappings that say nothing of blanks and case.
        members["account"] = {
            name: value
            for name, value in members["account"].items()
            if value or name not in {"trim", "case"}
        }
        text = wire.dumps_sorted(members)
        return f"{self.name}@{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def is_for(self, file_name: str) -> bool:
        """Whether the mapping claims a dropped file by its name."""
        return any(fnmatch.fnmatchcase(file_name, pattern) for pattern in self.files)

    def outside_constants(self, file_name: str) -> dict[str, str]:
        """What the rows take from outside the file's bytes; part of the source's identity.

        Raises:
            Invalid: The file name does not give an account.
        """
        constants = {
            f"{index}.{name}": constant_text(value)
            for index, rule in enumerate(self.measurements)
            for name, value in rule.constants.items()
        }
        account = self.fixed_account(file_name)
        return constants if account is None else constants | {"account": account}

    def fixed_account(self, file_name: str) -> str | None:
        """The account code that all rows share; None if a column gives it.

        Raises:
            Invalid: The file name does not give an account.
        """
        if self.account.filename is None:
            return self.account.value
        match = _compile(self.account.filename).search(file_name)
        if match is None or not match["account"]:
            rule = f"mapping {self.name!r} looks for the account in it by {self.account.filename!r}; rename the file, or change the mapping"
            raise Invalid("file name", file_name, rule)
        return match["account"]

    def columns(self) -> list[str]:
        """Every column of the file that the mapping reads, each once, in the order of first use."""
        named = [column_of(self.ts), *self.uid]
        named += [column_of(name) for name in (self.account.column, self.ets) if name]
        for rule in self.measurements:
            named += [*rule.when.present, *rule.when.absent, *rule.when.equals]
            named += map(column_of, rule.fields.values())
        return list(dict.fromkeys(named))


def constant_text(value: str | int | Decimal) -> str:
    """A constant as the text of a column."""
    return plain(value) if isinstance(value, Decimal) else str(value)


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None


def parse_mapping(document: Any, name: str) -> Mapping:
    """Check a mapping that was read from YAML or JSON.

    Args:
        document: The mapping's members.
        name: The file's name, for messages, and the mapping's name when it has none.

    Raises:
        UnreadableMapping: It breaks a rule; the first broken ones are named.
    """
    if not isinstance(document, dict):
        raise UnreadableMapping(name, document, "it must be a map of members")
    try:
        return Mapping.model_validate({"name": name, **document})
    except ValidationError as error:
        broken = "; ".join(
            f"{_place(problem['loc'])}: {_rule(problem)}" for problem in error.errors()[:3]
        )
        raise UnreadableMapping(name, document, broken) from None


def _place(steps: Sequence[str | int]) -> str:
    """Where in a mapping something is wrong, without how the model calls its kinds."""
    named = [str(step) for index, step in enumerate(steps) if index == 0 or step not in TAGS]
    if tuple(steps[-2:]) == ("map", "column"):  # A map that lacks its column.
        named.append("column")
    return ".".join(named) or "mapping"


def _rule(problem: Any) -> str:
    if problem["type"] == "model_type":
        return "a column's name, or a map with `column` and how it is written"
    return describe_mismatch(problem).removeprefix("Value error, ")
