"""What is on a Prefect server beside what is to be there, and the way from the one to the other."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from flows.outcome import Row

# Whatever has it is made, changed and removed by `meterlake deploy` alone.
TAG: Final = "meterlake"


class ServerObject(NamedTuple):
    """One object as the server has it.

    Attributes:
        id: The server's id of it.
        content: What we say about objects of its kind.
        is_ours: Whether it was made here; others are never removed.
    """

    id: str
    content: Row
    is_ours: bool


class ObjectKind(Protocol):
    """One kind of objects: what is to be there, what is there, and how it is changed."""

    kind: str

    def specify(self) -> Mapping[str, Row]:
        """What is to be there, by name."""

    def read(self) -> Mapping[str, ServerObject]:
        """What is there, by name."""

    def create(self, name: str, content: Row) -> str:
        """Make an object.

        Returns:
            Its id.
        """

    def update(self, name: str, found: ServerObject, content: Row) -> None:
        """Change an object, which keeps its id."""

    def remove(self, name: str, found: ServerObject) -> None:
        """Remove an object."""


def synchronize(kinds: Sequence[ObjectKind], *, dry_run: bool = False) -> list[Row]:
    """Make the server have what is to be there, and nothing of ours besides.

    Args:
        kinds: What others refer to comes first; it is removed last.
        dry_run: Only say what would be done.

    Returns:
        What became of each object: created, updated, unchanged or removed.
    """
    rows = [row for kind in kinds for row in _bring(kind, dry_run=dry_run)]
    for kind in reversed(kinds):
        rows += _clear(kind, dry_run=dry_run)
    return rows


def _bring(kind: ObjectKind, *, dry_run: bool) -> list[Row]:
    there = kind.read()
    rows = []
    for name, content in kind.specify().items():
        found = there.get(name)
        if found is None:
            id_ = None if dry_run else kind.create(name, content)
            rows.append(_row(kind, name, "created", id_))
        elif found.content != content:
            if not dry_run:
                kind.update(name, found, content)
            rows.append(_row(kind, name, "updated", found.id))
        else:
            rows.append(_row(kind, name, "unchanged", found.id))
    return rows


def _clear(kind: ObjectKind, *, dry_run: bool) -> list[Row]:
    kept = kind.specify().keys()
    rows = []
    for name, found in kind.read().items():
        if found.is_ours and name not in kept:
            if not dry_run:
                kind.remove(name, found)
            rows.append(_row(kind, name, "removed", found.id))
    return rows


def _row(kind: ObjectKind, name: str, outcome: str, id: Any) -> Row:
    return {"kind": kind.kind, "name": name, "outcome": outcome, "id": id}
