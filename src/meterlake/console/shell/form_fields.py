"""The fields of a form, made from what the API's own document says of a body."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final

from meterlake.api.openapi.builder import document
from meterlake.console.shell.page import words
from meterlake.model.resources import BY_ENTITY, BY_NAME, Resource, wire_name

_REF: Final = "#/components/schemas/"
# Texts of these names get several lines, unless they are short.
_LONG: Final = ("calculation", "sql", "description", "notes", "reason", "lettertext")
_LINE_MAX: Final = 200
_TEXT_MAX: Final = 10_000
# What the form itself sends, or the server: nothing that people say.
_NOT_SAID: Final = frozenset({"version", "empty"})
_KEPT: Final = "meterlake keeps it and does not use it."


class FieldKind(StrEnum):
    """How people fill in a field."""

    TEXT = "text"
    AREA = "area"
    NUMBER = "number"
    WHOLE = "whole"
    TICK = "tick"
    YES_NO = "yes-no"
    CHOICE = "choice"
    CHOICES = "choices"
    DAY = "day"
    INSTANT = "instant"
    REFERENCE = "reference"
    REFERENCES = "references"
    LINES = "lines"
    SEGMENTS = "segments"
    MAP = "map"
    ROWS = "rows"
    GROUP = "group"
    HIDDEN = "hidden"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class FormField:
    """One field.

    Attributes:
        name: Its name on the wire.
        kind: How people fill it in.
        label: What people read.
        hint: What the API's document says of it.
        required: Whether the API refuses its absence.
        choices: The words of the API that it takes.
        target: What it refers to; None if to nothing.
        by_code: Whether it refers by code, not by id.
        members: The fields of each row, or of the group.
        default: What it is if nobody says.
        longest: The longest text.
        typed: Of a map, whether values are texts or numbers, which people then say.
    """

    name: str
    kind: FieldKind
    label: str
    hint: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    target: Resource | None = None
    by_code: bool = False
    members: tuple["FormField", ...] = ()
    default: Any = None
    longest: int = _TEXT_MAX
    typed: bool = False

    @property
    def is_rows(self) -> bool:
        """Whether it has rows that people add and take away."""
        return self.kind in {FieldKind.ROWS, FieldKind.MAP}


# How the pattern of a code ends that may have no hyphen.
_END_OF_IDENT: Final = "_$0-9]*$"
_NUMBERS: Final = {"number": FieldKind.NUMBER, "integer": FieldKind.WHOLE}
# The fields of a row of a map.
_PAIR: Final = (
    FormField("name", FieldKind.TEXT, "Name"),
    FormField("value", FieldKind.TEXT, "Value"),
)
_TYPED_PAIR: Final = (
    *_PAIR,
    FormField("type", FieldKind.CHOICE, "Kind", required=True, choices=("TEXT", "NUMBER")),
)


@dataclass(frozen=True, slots=True)
class _Target:
    resource: Resource
    by_code: bool = False


_Targets = Mapping[str, _Target]


def fields_of_resource(name: str, leave_out: Iterable[str] = ()) -> tuple[FormField, ...]:
    """The fields that a caller may write of a declared resource.

    Args:
        name: Its name in `RESOURCES`: `planTemplates`.
        leave_out: Wire names of fields that the form does not show; they stay as they are.
    """
    resource = BY_NAME[name]
    fields = _without(_fields_of(f"{resource.schema}Request", name), leave_out)
    return tuple(sorted(fields, key=_place))


def _place(field: FormField) -> int:
    """What names an entity comes first, then what it belongs to and what else it must have."""
    if field.name in {"name", "code"}:
        return 0
    if field.kind is FieldKind.MAP:
        return 4
    if not field.required:
        return 3
    # What is measured comes before how it is rounded.
    return 1 if field.target is not None or field.name in {"targetField", "aggregation"} else 2


def fields_of_body(
    component: str, leave_out: Iterable[str] = (), refers_as: str = ""
) -> tuple[FormField, ...]:
    """The fields of the body of any operation, by the name of its schema: `BillJobRequest`.

    Args:
        component: The schema.
        leave_out: Wire names of fields that the form does not show.
        refers_as: A declared resource whose fields of the same names refer to the same things.
    """
    return _without(_fields_of(component, refers_as), leave_out)


def _without(fields: tuple[FormField, ...], names: Iterable[str]) -> tuple[FormField, ...]:
    left_out = frozenset(names)
    return tuple(each for each in fields if each.name not in left_out)


@cache
def _fields_of(component: str, resource_name: str) -> tuple[FormField, ...]:
    targets = _targets(BY_NAME[resource_name]) if resource_name else {}
    return tuple(_members(_schema(component), "", targets))


def _schema(component: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = document()["components"]["schemas"][component]
    return found


def _targets(resource: Resource) -> _Targets:
    """What fields refer to, by their dotted wire names."""
    found = {_wire_path(path): _Target(BY_ENTITY[kind]) for path, kind in resource.refs.items()}
    for path, kind in resource.codes.items():
        found[_wire_path(path)] = _Target(BY_ENTITY[kind], by_code=True)
    return found


def _wire_path(path: str) -> str:
    return ".".join(map(wire_name, path.split(".")))


def _members(schema: Mapping[str, Any], path: str, targets: _Targets) -> Iterable[FormField]:
    required = frozenset(schema.get("required", ()))
    for name, said in schema.get("properties", {}).items():
        if name in _NOT_SAID:
            continue
        place = f"{path}.{name}" if path else name
        yield _field(name, said, place, targets, required=name in required)


def _field(
    name: str, said: Mapping[str, Any], place: str, targets: _Targets, *, required: bool
) -> FormField:
    found = _resolved(said)
    target = targets.get(place)
    kind = _kind(said, found, target)
    longest = found.get("maxLength", _TEXT_MAX)
    if kind is FieldKind.TEXT and longest > _LINE_MAX and name.lower().endswith(_LONG):
        kind = FieldKind.AREA
    item = _resolved(found.get("items", {}))
    values = found.get("additionalProperties")
    is_typed = isinstance(values, dict) and "anyOf" in values
    return FormField(
        name=name,
        kind=kind,
        label=_label(name, kind),
        hint=" ".join(filter(None, (_hint(said.get("description", ""), kind), _rule(found)))),
        required=required,
        choices=tuple(found.get("enum") or item.get("enum") or ()),
        target=target.resource if target else None,
        by_code=target.by_code if target else False,
        members=_nested(kind, item, found, place, targets, is_typed=is_typed),
        default=said.get("default"),
        longest=longest,
        typed=is_typed,
    )


def _nested(
    kind: FieldKind,
    item: Mapping[str, Any],
    found: Mapping[str, Any],
    place: str,
    targets: _Targets,
    *,
    is_typed: bool,
) -> tuple[FormField, ...]:
    match kind:
        case FieldKind.ROWS:
            return tuple(_members(item, place, targets))
        case FieldKind.GROUP:
            return tuple(_members(found, place, targets))
        case FieldKind.MAP:
            return _TYPED_PAIR if is_typed else _PAIR
        case _:
            return ()


def _resolved(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with what it refers to."""
    for each in (said, *said.get("allOf", ())):
        if "$ref" in each:
            return _schema(each["$ref"].removeprefix(_REF))
    return said


def _kind(said: Mapping[str, Any], found: Mapping[str, Any], target: _Target | None) -> FieldKind:
    if said.get("description") == _KEPT:
        return FieldKind.HIDDEN
    match found.get("type"):
        case "array":
            return _kind_of_list(_resolved(found["items"]), target)
        case "object":
            return _kind_of_object(found)
        case "boolean":
            return FieldKind.TICK if "default" in said else FieldKind.YES_NO
        case "string":
            return _kind_of_text(found, target)
        case other:
            return _NUMBERS.get(str(other), FieldKind.JSON)


def _kind_of_object(found: Mapping[str, Any]) -> FieldKind:
    if found.get("properties"):
        return FieldKind.GROUP
    is_map = isinstance(found.get("additionalProperties"), dict)
    return FieldKind.MAP if is_map else FieldKind.JSON


def _kind_of_list(item: Mapping[str, Any], target: _Target | None) -> FieldKind:
    if target is not None:
        return FieldKind.REFERENCES
    if "enum" in item:
        return FieldKind.CHOICES
    match item.get("type"):
        case "string":
            return FieldKind.LINES
        case "object":
            return FieldKind.ROWS if item.get("properties") else FieldKind.SEGMENTS
        case _:
            return FieldKind.JSON


def _kind_of_text(found: Mapping[str, Any], target: _Target | None) -> FieldKind:
    if target is not None:
        return FieldKind.REFERENCE
    if "enum" in found:
        return FieldKind.CHOICE
    if found.get("format") == "date":
        return FieldKind.DAY
    if found.get("format") == "date-time":
        return FieldKind.INSTANT
    return FieldKind.TEXT


def _label(name: str, kind: FieldKind) -> str:
    if kind is FieldKind.REFERENCE and name != "id":
        name = name.removesuffix("Id")
    if kind is FieldKind.REFERENCES and name.endswith("Ids"):
        name = f"{name.removesuffix('Ids')}s"
    return words(name)


def _rule(said: Mapping[str, Any]) -> str:
    """What a text must be, where people would write something else: a hyphen in a code."""
    is_ident = str(said.get("pattern", "")).endswith(_END_OF_IDENT)
    return "Letters, digits, _ and $; no digit first, and no hyphen." if is_ident else ""


def _hint(description: str, kind: FieldKind) -> str:
    """What the document says, unless the label says that already."""
    if kind in {FieldKind.REFERENCE, FieldKind.REFERENCES} and description.startswith("The id"):
        return ""
    if kind is FieldKind.TICK:
        return description.replace("true:", "Ticked:").replace("false:", "Not ticked:")
    return "" if description == "Its name." else description
