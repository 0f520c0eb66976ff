"""Mapping files: read, checked, and found for a file by its name."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from meterlake.model.calculation.mistakes import nearest
from meterlake.model.errors import NotFound, UnreadableConfiguration, UnreadableMapping
from meterlake.model.measurements.mapping import Mapping, parse_mapping
from meterlake.model.values.documents import parse
from meterlake.pipeline.ingest.derivations import read_meters
from meterlake.stores import Stores

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
        raise NotFound("mapping file", str(path), f" ({error.strerror}); check its path") from None
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
            raise UnreadableMapping(
                path.name, None, "files: names no dropped files; give the pattern of their names"
            )
    return found


def mapping_problems(stores: Stores, org_id: str, mapping: Mapping) -> list[str]:
    """What of a mapping does not fit the meters: each rule's meter, and its fields."""
    meters, _ = read_meters(stores.state, org_id)
    found: list[str] = []
    for number, rule in enumerate(mapping.measurements):
        place = f"measurements[{number}]"
        meter = meters.get(rule.meter)
        if meter is None:
            found.append(f"{place}.meter: no meter {rule.meter!r}{_near(rule.meter, meters)}")
            continue
        fields = {each.column for each in meter.fields}
        given = {**rule.fields, **rule.constants}
        found += [
            f"{place}: meter {rule.meter!r} has no field {name!r}{_near(name, fields, given)}"
            for name in given
            if name not in fields
        ]
        found += [
            f"{place}: no column for {name!r} of meter {rule.meter!r}"
            for name in sorted(fields - given.keys())
        ]
    return found


def _near(name: str, known: Iterable[str], given: Collection[str] = ()) -> str:
    meant = nearest(name, known)
    return f"; did you mean {meant!r}?" if meant and meant not in given else ""


def claiming(mappings: Iterable[Mapping], name: str) -> Mapping | None:
    """The first mapping that is for files of that name."""
    return next((mapping for mapping in mappings if mapping.is_for(name)), None)
