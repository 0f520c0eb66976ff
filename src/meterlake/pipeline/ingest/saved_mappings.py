"""Mappings that are kept: files of the drop folder, which read what comes under their names."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from meterlake.model.errors import Invalid, NotFound, UnreadableMapping
from meterlake.model.measurements.mapping import Mapping, parse_mapping
from meterlake.model.values.documents import to_yaml
from meterlake.model.values.period import format_instant
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.files import load_mapping, mapping_files, mapping_problems
from meterlake.stores import Organization
from meterlake.stores.files.durable import disk, write_durably

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
# What stands in the first line of a file that was saved here.
_SAVED: Final = re.compile(rb"# saved by (\S+)")
_LINE_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class SavedMapping:
    """A mapping that is kept.

    Attributes:
        name: The name of its file, without the ending.
        mapping: None if it cannot be read.
        problem: Why it cannot be read.
        author: Who saved it; None if its file was put there.
        saved: When its file was written.
    """

    name: str
    saved: datetime
    mapping: Mapping | None = None
    problem: str | None = None
    author: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """As the API shows it."""
        found = {
            "name": self.name,
            "mapping": None if self.mapping is None else mapping_document(self.mapping),
            "problem": self.problem,
            "author": self.author,
            "saved": format_instant(self.saved),
        }
        return {name: value for name, value in found.items() if value is not None}


def mapping_document(mapping: Mapping) -> dict[str, Any]:
    """The members of a mapping as its file has them, without those that say nothing."""
    return mapping.model_dump(mode="python", exclude_defaults=True)


def list_mappings(organization: Organization) -> list[SavedMapping]:
    """The mappings of an organization, by name.

    Raises:
        Unavailable: The disk failed.
    """
    folder = drop_folder(organization.stores, organization.code).mappings
    with disk():
        return [_read(path) for path in mapping_files(folder)]


def _read(path: Path) -> SavedMapping:
    saved = datetime.fromtimestamp(path.stat().st_mtime, UTC).replace(microsecond=0)
    with path.open("rb") as file:
        author = _SAVED.match(file.readline(_LINE_MAX))
    known = SavedMapping(path.stem, saved, author=author and author[1].decode("utf-8", "replace"))
    try:
        mapping = load_mapping(path)
    except (NotFound, UnreadableMapping) as error:
        return SavedMapping(known.name, saved, problem=str(error), author=known.author)
    return SavedMapping(known.name, saved, mapping, author=known.author)


def save_mapping(
    organization: Organization, name: str, document: dict[str, Any], author: str
) -> SavedMapping:
    """Keep a mapping, instead of the one that has its name.

    Args:
        organization: The organization.
        name: The name of its file, without an ending.
        document: Its members.
        author: Who does it.

    Raises:
        Invalid: The name is none of a file.
        UnreadableMapping: It breaks a rule, is for no files, or does not fit the meters.
        Unavailable: The disk failed.
    """
    _check_name(name)
    mapping = parse_mapping(document, name)
    if not mapping.files:
        rule = "files: names no files; give the pattern of their names, such as flights*.csv"
        raise UnreadableMapping(name, None, rule)
    if problems := mapping_problems(organization, mapping):
        rule = f"{'; '.join(problems)}; change the mapping, or the meters"
        raise UnreadableMapping(name, None, rule)
    folder = drop_folder(organization.stores, organization.code).mappings
    target = folder / f"{name}.yaml"
    line = f"# saved by {author} at {format_instant(organization.now())}\n"
    with write_durably(target) as path:
        path.write_text(line + to_yaml(mapping_document(mapping)))
    with disk():
        # Two files of one name would both be read, and one of them claim what comes.
        for other in mapping_files(folder):
            if other.stem == name and other != target:
                other.unlink(missing_ok=True)
        return _read(target)


def delete_mapping(organization: Organization, name: str) -> None:
    """Keep a mapping no more: files of its names are read in meterlake's own format.

    Raises:
        NotFound: There is none.
        Unavailable: The disk failed.
    """
    folder = drop_folder(organization.stores, organization.code).mappings
    with disk():
        named = [each for each in mapping_files(folder) if each.stem == name]
        if not named:
            raise NotFound("mapping", name)
        for each in named:
            each.unlink(missing_ok=True)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        rule = (
            "it must have letters, digits, _ - and . only, 100 at most, and begin with none of - ."
        )
        raise Invalid("name", name, rule)
