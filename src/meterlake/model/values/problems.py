"""How what is wrong with an entity is put into words, where it is, and how it is raised."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from meterlake.model.errors import (
    Invalid,
    InvalidConfiguration,
    MeterlakeError,
    Required,
    UnknownField,
)
from meterlake.model.values.entity import Value
from meterlake.model.values.ids import CODE_PATTERN
from meterlake.model.values.plurals import counted, first_of

PATTERN_RULES: Final = MappingProxyType(
    {
        CODE_PATTERN: "text without control characters, without white space at its ends, and with no other white space than spaces",
        r"^[\p{L}_$][\p{L}_$0-9]*$": "made of letters, digits, _ and $, not beginning with a digit",
        r"^[a-zA-Z0-9_-]*$": "made of letters A to Z, digits, dashes and underscores",
        r"^[A-Za-z0-9-]{1,100}$": "made of 1 to 100 letters A to Z, digits and dashes",
        r"^[a-z0-9-]{1,40}$": "made of 1 to 40 lower-case letters a to z, digits and dashes",
        r"^[a-z][a-z0-9]*$": "made of lower-case letters a to z and digits, beginning with a letter",
        r"^[!-~](?:[ -~]*[!-~])?$": "made of printable ASCII characters, with no space at the ends",
        r"^arn:aws:iam::\d+:role/.*$": "the ARN of a role such as arn:aws:iam::123456789012:role/name",
        r"^[\x01-\x09!#-/:-@\[-^`{-~]$": (
            "one ASCII character that is no letter, digit, space, double quote, underscore or line break"
        ),
        r"\S": "text that is not blank",
        r"^[0-9a-f]{64}$": "a SHA-256 of 64 hexadecimal digits in lower case",
        r"^\d+(MB|GB)$": "a size such as 700MB or 2GB",
        r"^(https?://[^?#\s]+)?$": "an http:// or https:// URL without a query, or empty",
        r"^https?://[^/?#\s]+$": "an http:// or https:// URL without a path",
        r"^https?://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$": "the origin of a page, such as https://portal.example.com",
        r"^[^\s<>]+@[^\s<>]+$": "an e-mail address",
    }
)


def describe_mismatch(detail: Any) -> str:
    """The rule that an error of pydantic is about; of a pattern in words, if it has any yet."""
    if detail["type"] != "string_pattern_mismatch":
        return str(detail["msg"]).replace("Input should be", "it must be")
    pattern = detail["ctx"]["pattern"]
    return f"it must be {PATTERN_RULES.get(pattern, f'text that matches {pattern}')}"


M = TypeVar("M", bound=BaseModel)

# This many problems are told at once.
_TOLD_MAX: Final = 5

# Stands where the value is a secret.
_HIDDEN: Final = "***"

# How like a known name has to be, so that it may be meant.
_LIKE: Final = 0.6
# What answers of the API show beside the fields; nobody writes it.
_ENVELOPE: Final = frozenset(
    {"version", "createdBy", "dtCreated", "lastModifiedBy", "dtLastModified"}
)

# The rule that a field breaks which a document cannot have.
UNKNOWN: Final = "there is no such field; leave it out"

_MEMBER: Final = re.compile(r"<[^:>]*: ('[^']*')>")

# pydantic's error types as the rule that was broken; the placeholders are its context.
_RULES: Final = {
    "rule": "{rule}",
    "string_type": "it must be text (in quotes, if it looks like something else)",
    "string_sub_type": "it must be text",
    "too_short": "it must have at least {least}",
    "too_long": "it must have at most {most}",
    "greater_than": "it must be more than {gt}",
    "greater_than_equal": "it must be {ge} or more",
    "less_than": "it must be less than {lt}",
    "less_than_equal": "it must be at most {le}",
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "int_parsing": "it must be a whole number",
    "float_parsing": "it must be a number",
    "enum": "it must be one of {expected}",
    "literal_error": "it must be {expected}",
    "tuple_type": "it must be a list",
    "dict_type": "it must be a map",
    "model_type": "it must be a map of fields",
    "extra_forbidden": UNKNOWN,
    "model_attributes_type": "it must be a map of fields",
}


def read(kind: type[M], document: Any) -> M:
    """Read a document under its wire names.

    Raises:
        Invalid: Fields break rules; the sentence names the first few.
    """
    try:
        return kind.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        refuse(list(problems(error)))
        raise


def problems(error: ValidationError) -> Iterator[Invalid]:
    """Put every broken rule of an entity into words.

    Yields:
        One `Invalid` per broken rule: `dataFields[0].code`, the value, the rule.
    """
    for detail in error.errors(include_url=False):
        place = path(*detail["loc"])
        if detail["type"] == "missing":
            yield Required(place)
            continue
        if detail["type"] == "unknown_member":
            member, rule = detail["ctx"]["member"], detail["ctx"]["rule"]
            yield Invalid(path(*detail["loc"], member), detail["input"][member], rule)
            continue
        # A list is also called too short where its bad entries alone were not counted.
        is_short = detail["type"] == "too_short" and detail["loc"]
        if is_short and len(detail["input"]) >= detail["ctx"]["min_length"]:
            continue
        value = _HIDDEN if detail["type"] == "secret" else detail["input"]
        yield Invalid(place, value, describe_rule(detail))


def describe_rule(detail: Any) -> str:
    """The rule that an error of pydantic is about, in words."""
    template = _RULES.get(detail["type"])
    if template is None:
        return describe_mismatch(detail)
    context = dict(detail.get("ctx", {}))
    units = ("character",) if isinstance(detail["input"], str) else ("entry", "entries")
    for word, limit in (("least", "min_length"), ("most", "max_length")):
        if limit in context:
            context[word] = counted(context[limit], *units)
    # Of a member of an enum, pydantic shows the class too: the value is what callers know.
    context |= {"expected": _MEMBER.sub(r"\1", str(context.get("expected", "")))}
    return template.format(**context)


def path(*steps: str | int) -> str:
    """Write the place of a value: `pricingBands[0].unitPrice`."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def locate_error(place: str, error: MeterlakeError) -> MeterlakeError:
    """The same error at a place: `plans.yaml: plans[2]` before its field."""
    if isinstance(error, Invalid):
        field, *rest = error.args
        return type(error)(f"{place}.{field}", *rest)
    error.place = place
    return error


def refuse(found: Sequence[MeterlakeError]) -> None:
    """Raise if there is anything wrong.

    Raises:
        MeterlakeError: The one problem, or the first few of several in one sentence.
    """
    if not found:
        return
    if len(found) == 1:
        raise found[0]
    sentences = first_of([str(error) for error in found], _TOLD_MAX)
    error = InvalidConfiguration(f"{len(found)} problems", None, sentences)
    error.problems = tuple(found)
    raise error


class Unknown(NamedTuple):
    """A name in a document that no field has.

    Attributes:
        place: Where it stands: `address.street`.
        value: What was written there.
        known: The names that fields have there.
        given: The names that stand there.
    """

    place: str
    value: Any
    known: tuple[str, ...]
    given: frozenset[str] = frozenset()

    def error(self, place: str) -> UnknownField:
        """The name as a problem of an entity at a place, with the name that may be meant."""
        name = self.place.rpartition(".")[2]
        return UnknownField(
            f"{place}.{self.place}", self.value, suggest_name(name, self.known, self.given)
        )


def suggest_name(name: str, known: Iterable[str], given: Collection[str] = ()) -> str:
    """Which of the known names an unknown one may stand for, in words.

    Args:
        name: The unknown name.
        known: Those that may stand there.
        given: Those that stand there already: nobody means them.
    """
    listed = list(known)
    if name in _ENVELOPE:
        return "meterlake writes it by itself; leave it out"
    by_lower = {each.lower(): each for each in listed}
    near = get_close_matches(name.replace("_", "").lower(), by_lower, n=1, cutoff=_LIKE)
    if near and by_lower[near[0]] not in given:
        return f"did you mean {by_lower[near[0]]!r}?"
    return (
        f"it must be one of {', '.join(listed)}"
        if listed
        else "leave it out: nothing may stand here"
    )


def unknown_names(kind: type[Value], document: Any) -> Iterator[Unknown]:
    """Every name in a document that no field of a kind has."""
    if not isinstance(document, dict):
        return
    fields = {field.alias or name: field for name, field in kind.model_fields.items()}
    for name, value in document.items():
        if name not in fields:
            yield Unknown(str(name), value, tuple(fields), frozenset(map(str, document)))
            continue
        inner = _value_type(fields[name].annotation)
        if inner is None:
            continue
        several = isinstance(value, list)
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            place = f"{name}[{index}]" if several else name
            for each in unknown_names(inner, item):
                yield each._replace(place=f"{place}.{each.place}")


def _value_type(annotation: Any) -> type[Value] | None:
    """The nested kind of fields in an annotation such as `tuple[PricingBand, ...]`, if any."""
    if isinstance(annotation, type) and issubclass(annotation, Value):
        return annotation
    return next(filter(None, map(_value_type, get_args(annotation))), None)
