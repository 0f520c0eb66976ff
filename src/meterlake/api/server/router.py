"""Finds the operation of a request: by the segments of its path, not by trying patterns in turn."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from meterlake.api.server.operations import Operation


class Match(NamedTuple):
    """What a path leads to: operations by method, and the members of the path."""

    operations: dict[str, Operation]
    members: dict[str, str]


@dataclass
class _Node:
    fixed: dict[str, "_Node"] = field(default_factory=dict)
    member: "_Node | None" = None
    operations: dict[str, Operation] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Router:
    """All operations; fixed segments win over members."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root = _Node()
        for operation in operations:
            self._add(operation)

    def _add(self, operation: Operation) -> None:
        node, names = self._root, []
        for segment in operation.path.strip("/").split("/"):
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.member = node.member or _Node()
                node = node.member
            else:
                node = node.fixed.setdefault(segment, _Node())
        if operation.method in node.operations:
            raise ValueError(f"{operation.method} {operation.path} stands twice")
        node.operations[operation.method] = operation
        node.names[operation.method] = tuple(names)

    def find(self, raw_path: str, method: str) -> Match | None:
        """What a path leads to, or None; empty segments do not count.

        Args:
            raw_path: The path as it was sent, percent-encoded.
            method: Which method's names the members get, if it is there.
        """
        segments = [segment for segment in raw_path.split("/") if segment]
        found = _walk(self._root, segments, ())
        if found is None:
            return None
        node, values = found
        names = node.names.get(method) or next(iter(node.names.values()))
        members = dict(zip(names, map(unquote, values), strict=True))
        return Match(node.operations, members)


def _walk(
    node: _Node, segments: list[str], values: tuple[str, ...]
) -> tuple[_Node, tuple[str, ...]] | None:
    if not segments:
        return (node, values) if node.operations else None
    first, rest = segments[0], segments[1:]
    if first in node.fixed:
        found = _walk(node.fixed[first], rest, values)
        if found is not None:
            return found
    return _walk(node.member, rest, (*values, first)) if node.member else None
