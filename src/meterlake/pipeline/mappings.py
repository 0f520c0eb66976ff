"""Mapping files: read, checked, and found for a file by its name."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from meterlake.model.documents import parse
from meterlake.model.errors import NotFound, UnreadableConfiguration, UnreadableMapping
from meterlake.model.mapping import Mapping, parse_mapping

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


def load_mapping(path: Path) -> Mapping:
    """Read one mapping file.

    Raises:
        NotFound: There is no such file.
        UnreadableMapping: It is broken.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotFound("mapping file", str(path), f" ({error.strerror})") from None
    try:
        document = parse(path.name, data)
    except UnreadableConfiguration as error:
        raise UnreadableMapping(path.name, None, str(error.args[2])) from None
    return parse_mapping(document, path.name.removesuffix(path.suffix))


def folder_mappings(folder: Path) -> list[Mapping]:
    """The mappings of a folder, by the names of their files.

    Raises:
        UnreadableMapping: One is broken, or names no files that it is for.
    """
    if not folder.is_dir():
        return []
    paths = sorted(
        path
        for path in folder.iterdir()
        if path.suffix in _SUFFIXES and not path.name.startswith(".")
    )
    found = [load_mapping(path) for path in paths]
    for path, mapping in zip(paths, found, strict=True):
        if not mapping.files:
            raise UnreadableMapping(path.name, None, "files: names no dropped files")
    return found


def claiming(mappings: Iterable[Mapping], name: str) -> Mapping | None:
    """The first mapping that is for files of that name."""
    return next((mapping for mapping in mappings if mapping.is_for(name)), None)
