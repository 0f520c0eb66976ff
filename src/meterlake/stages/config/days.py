"""Days in configuration files: where an instant belongs, a day is its beginning in the organization."""

from collections.abc import Mapping
from datetime import date, datetime, tzinfo
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from meterlake.model.values.period import DAY_PATTERN, format_instant, midnight


def begin_days(kind: type[BaseModel], document: Mapping[str, Any], local: tzinfo) -> dict[str, Any]:
    """A document with the instants at which the days in it begin; what is no day stays.

    Args:
        kind: The class of the document.
        document: Its members by their wire names.
        local: The organization's time zone.
    """
    found = dict(document)
    for name, inner in _dated_members(kind).items():
        if name in found:
            found[name] = _begin(found[name], inner, local)
    return found


def _begin(value: Any, inner: type[BaseModel] | None, local: tzinfo) -> Any:
    if isinstance(value, list):
        return [_begin(each, inner, local) for each in value]
    if isinstance(value, dict) and inner is not None:
        return begin_days(inner, value, local)
    if inner is not None or not isinstance(value, str) or not DAY_PATTERN.fullmatch(value):
        return value
    try:
        return format_instant(midnight(date.fromisoformat(value), local))
    except (ValueError, OverflowError):
        return value  # The class says what is wrong with it.


@cache
def _dated_members(kind: type[BaseModel]) -> dict[str, type[BaseModel] | None]:
    """The members that hold instants themselves, or models, by wire name."""
    found: dict[str, type[BaseModel] | None] = {}
    for attribute, field in kind.model_fields.items():
        for each in _types(field.annotation):
            if each is datetime:
                found[field.alias or attribute] = None
            elif issubclass(each, BaseModel) and each is not kind:
                found[field.alias or attribute] = each
    return found


def _types(annotation: Any) -> list[type]:
    if isinstance(annotation, type):
        return [annotation]
    return [each for part in get_args(annotation) for each in _types(part)]
