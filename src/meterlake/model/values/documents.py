"""YAML and JSON documents that people write: numbers exact, dates and yes/no plain text.

YAML is read much as YAML 1.2's core schema does, without what surprises in configuration: a leading
zero, `yes`, `on`, `2026-10-01` and `.inf` are text. A map that names a key twice is refused.
libyaml reads the text; what a plain scalar means is decided here.
"""

import json
import re
from decimal import Decimal
from typing import Any, ClassVar, Final, Never

import yaml

from meterlake.model.errors import UnreadableConfiguration
from meterlake.model.values.money import NUMBER_PATTERN, plain

BYTES_MAX: Final = 64 << 20
# With aliases, a small document can stand for a huge one; this many values are enough.
_VALUES_MAX: Final = 5_000_000
_DIGITS_MAX: Final = 400
# libyaml's binding recurses in C: tens of thousands of levels would end the process.
_DEPTH_MAX: Final = 100
# YAML is read slowly.
_LOOKED_THROUGH_MAX: Final = 1 << 20

# PyYAML looks whether a pattern matches the beginning: each has to say where it ends.
_NULL = re.compile(r"(?:~|null|Null|NULL|)\Z")
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
# NUMBER_PATTERN without leading zeros: `007` is somebody's code.
_NUMBER = re.compile(rf"(?![+-]?0[0-9]){NUMBER_PATTERN}\Z")
_BREAKS = re.compile("[\n\r\x85\u2028\u2029\ufeff]")
# A step of a place in a document: a name, or an index in brackets.
_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_NUMBER_TAG: Final = "tag:meterlake,2026:number"


class _Loader(yaml.CSafeLoader):
    """Resolves plain scalars as the module says, and nothing by tag but the core types."""

    # PyYAML copies the tables of a class that has none of its own: these start empty.
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012
    yaml_constructors: ClassVar[dict[Any, Any]] = {}


def _compose(text: str) -> yaml.Node | None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEPTH_MAX:
            raise _at(event, f"nested too deeply: {_DEPTH_MAX} levels at most")
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Count the values that a node stands for, its aliases spelled out."""
    known = sizes.get(id(node))
    if known is not None:
        if known == 0:
            raise yaml.YAMLError("an alias that contains itself")
        return known
    sizes[id(node)] = 0
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        children = [child for pair in node.value for child in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    total = 1 + sum(_size(child, sizes) for child in children)
    if total > _VALUES_MAX:
        raise yaml.YAMLError(f"more than {_VALUES_MAX} values")
    sizes[id(node)] = total
    return total


def _map(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    pairs = []
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise _at(key_node, f"the key {key!s} is no text; put it in quotes")
        value = loader.construct_object(value_node, deep=True)
        pairs.append((key_node, key, value))
    document: dict[str, Any] = {}
    for key_node, key, value in pairs:
        if key in document:
            raise _at(key_node, f"the key {key!r} stands there twice")
        document[key] = value
    return document


def _list(loader: _Loader, node: yaml.SequenceNode) -> list[Any]:
    return [loader.construct_object(item, deep=True) for item in node.value]


def _number(_: _Loader, node: yaml.ScalarNode) -> int | Decimal:
    text = str(node.value)
    if len(text) > _DIGITS_MAX:
        raise _at(node, "a number with too many digits")
    return int(text) if text.lstrip("+-").isdigit() else Decimal(text)


def _refuse_node(_: _Loader, node: yaml.Node) -> Never:
    raise _at(node, f"the tag {node.tag} is not known here")


def _at(found: Any, problem: str) -> yaml.MarkedYAMLError:
    # A node or an event.
    return yaml.MarkedYAMLError(problem=problem, problem_mark=found.start_mark)


_Loader.add_implicit_resolver("tag:yaml.org,2002:null", _NULL, [*"~nN", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOL, [*"tTfF"])
_Loader.add_implicit_resolver(_NUMBER_TAG, _NUMBER, [*"+-0123456789"])
_Loader.add_constructor("tag:yaml.org,2002:map", _map)
_Loader.add_constructor("tag:yaml.org,2002:seq", _list)
_Loader.add_constructor("tag:yaml.org,2002:str", lambda _, node: str(node.value))
_Loader.add_constructor("tag:yaml.org,2002:null", lambda _, __: None)
_Loader.add_constructor("tag:yaml.org,2002:bool", lambda _, node: str(node.value).lower() == "true")
_Loader.add_constructor(_NUMBER_TAG, _number)
_Loader.add_constructor(None, _refuse_node)


class _Dumper(yaml.SafeDumper):
    """Quotes every text that either YAML 1.1 or our reader would take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        del indentless
        super().increase_indent(flow, False)


def _represent_decimal(dumper: yaml.SafeDumper, number: Decimal) -> yaml.ScalarNode:
    text = plain(number)
    kind = "float" if "." in text else "int"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{kind}", text)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # In other styles PyYAML writes some line breaks that it does not read back.
    style = '"' if _BREAKS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(Decimal, _represent_decimal)
_Dumper.add_representer(str, _represent_text)
_Dumper.add_implicit_resolver(_NUMBER_TAG, _NUMBER, [*"+-0123456789"])


def to_yaml(value: Any) -> str:
    """Write plain values (`wire.to_plain`) as YAML that `parse` reads back exactly."""
    return str(yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=2_000))


def parse(name: str, data: bytes) -> Any:
    """Read a YAML or JSON document (by its name: `.json` is JSON).

    Args:
        name: The file's name, for messages.
        data: UTF-8, with or without a byte order mark.

    Returns:
        Maps, lists, text, bool, None, int and Decimal; None for an empty document.

    Raises:
        UnreadableConfiguration: It cannot be read.
    """
    if len(data) > BYTES_MAX:
        raise UnreadableConfiguration(
            name, len(data), f"it must be of at most {BYTES_MAX} bytes: split it into several files"
        )
    try:
        text = data.decode("utf-8-sig")
        return _parse_json(text) if name.lower().endswith(".json") else _parse_yaml(text)
    except UnicodeDecodeError as error:
        raise UnreadableConfiguration(
            name, None, f"it is not UTF-8: {error.reason}; write it in UTF-8"
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise _unreadable(name, _in_one_line(error), mark and mark.line + 1) from None
    except json.JSONDecodeError as error:
        rule = f"line {error.lineno}, column {error.colno}: it is not JSON: {error.msg}"
        raise _unreadable(name, rule, error.lineno) from None
    except ValueError as error:
        raise _unreadable(name, f"it is not JSON: {error}", _line_of_mistake(text)) from None
    except RecursionError:
        raise UnreadableConfiguration(
            name, None, "it is nested too deeply; write it with fewer levels"
        ) from None


def _line_of_mistake(text: str) -> int | None:
    """Where JSON is wrong of which the reader does not say it, as YAML sees it."""
    if len(text) > _LOOKED_THROUGH_MAX:
        return None
    try:
        _parse_yaml(text.replace("\t", " "))
    except yaml.MarkedYAMLError as error:
        return error.problem_mark.line + 1 if error.problem_mark else None
    except yaml.YAMLError:
        return None
    return None


def _unreadable(name: str, rule: str, line: int | None) -> UnreadableConfiguration:
    error = UnreadableConfiguration(name, None, rule)
    error.line = line
    return error


class DocumentLines:
    """The lines of what a document says."""

    def __init__(self, data: bytes) -> None:
        """Read a document that `parse` has read.

        Args:
            data: Its bytes; JSON is YAML but for tabs.
        """
        try:
            self._root = _compose(data.decode("utf-8-sig", "replace").replace("\t", " "))
        except yaml.YAMLError:
            self._root = None

    def line(self, location: str) -> int | None:
        """The line, from 1, of `plans[2].name`, or of the innermost part of it that is there.

        Of the document as a whole it is the first one that says something.
        """
        node, line = self._root, None if self._root is None else self._root.start_mark.line + 1
        for name, index in _STEP.findall(location):
            found = _entry(node, name, int(index) if index else None)
            if found is None:
                break
            line, node = found
        return line


def _entry(node: yaml.Node | None, name: str, index: int | None) -> tuple[int, yaml.Node] | None:
    """The line on which an entry of a map or a list begins, and the entry."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode) and index is not None and index < len(node.value):
        return node.value[index].start_mark.line + 1, node.value[index]
    return None


def _parse_yaml(text: str) -> Any:
    node = _compose(text)
    if node is None:
        return None
    _size(node, {})
    return _Loader("").construct_document(node)


def _parse_json(text: str) -> Any:
    if not text.strip():
        return None
    return json.loads(
        text, object_pairs_hook=_object, parse_float=_decimal, parse_constant=_constant
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for key, value in pairs:
        if key in document:
            raise ValueError(f"the key {key!r} stands there twice")
        document[key] = value
    return document


def _decimal(text: str) -> Decimal:
    if len(text) > _DIGITS_MAX:
        raise ValueError("a number with too many digits")
    return Decimal(text)


def _constant(text: str) -> Never:
    raise ValueError(f"{text} is no number")


def _in_one_line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    problem = getattr(error, "problem", None) or getattr(error, "context", None)
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
