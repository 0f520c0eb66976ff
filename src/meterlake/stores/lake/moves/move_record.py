"""What a home notes of a move of its lakes: from where, to where, and whether it is done.

A move that was killed goes on only where it began, and what it left at its target is its own.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from sqlalchemy import make_url

from meterlake.model.errors import Invalid
from meterlake.model.values import wire
from meterlake.settings import Settings
from meterlake.stores.files.durable import disk, sync, write_durably
from meterlake.stores.home_settings import stored_value

_FILE: Final = "move-lake.json"
_NAMES: Final = ("lake", "catalog")


@dataclass(frozen=True, slots=True)
class LakeLocation:
    """Where the lakes of a home are, as its settings say it, without passwords; None: in the home."""

    lake: str | None
    catalog: str | None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The location that settings name."""
        return cls(*(stored_value(name, getattr(settings, name)) for name in _NAMES))

    def __str__(self) -> str:
        return f"{self.lake or 'the home folder'}, catalog {self.catalog or 'SQLite'}"

    def to_settings(self, settings: Settings) -> Settings:
        """Settings with this location; a hidden password is left to libpq's own files."""
        catalog = self.catalog
        if catalog is not None and (url := make_url(catalog)).password is not None:
            catalog = url.set(password=None).render_as_string()
        return settings.model_copy(update={"lake": self.lake, "catalog": catalog})


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """A move that has begun.

    Attributes:
        organizations: The ids of those whose place at the target was free when it began.
    """

    source: LakeLocation
    target: LakeLocation
    organizations: tuple[str, ...]
    done: bool = False

    def finish(self, home: Path) -> None:
        """Write down that the home has its lakes at the target."""
        write_record(home, replace(self, done=True))


def read_record(home: Path) -> MoveRecord | None:
    """What a home knows of its last move, if the source was not removed since.

    Raises:
        Invalid: The file is none of ours.
    """
    path = home / _FILE
    with disk():
        if not path.exists():
            return None
        text = path.read_bytes()
    with suppress(Invalid, KeyError, TypeError):
        found = wire.loads(text)
        return MoveRecord(
            _read_location(found["from"]),
            _read_location(found["to"]),
            tuple(found["organizations"]),
            bool(found["done"]),
        )
    raise Invalid("record of a move", str(path), "it must be one that `meterlake move-lake` wrote")


def write_record(home: Path, record: MoveRecord) -> None:
    """Write a record durably."""
    content = {
        "from": _to_wire(record.source),
        "to": _to_wire(record.target),
        "organizations": list(record.organizations),
        "done": record.done,
    }
    with write_durably(home / _FILE) as temporary:
        temporary.write_bytes(wire.dumps_pretty(content))
        temporary.chmod(0o600)


def forget_record(home: Path) -> None:
    """Remove the record: there is no former place any more."""
    with disk():
        (home / _FILE).unlink(missing_ok=True)
    sync(home)


def _to_wire(location: LakeLocation) -> dict[str, str | None]:
    return {name: getattr(location, name) for name in _NAMES}


def _read_location(found: Mapping[str, Any]) -> LakeLocation:
    return LakeLocation(found["lake"], found["catalog"])
