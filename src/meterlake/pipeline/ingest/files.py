"""Files that somebody names, instead of dropping them, and mappings that say how files are read."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

from meterlake.model.calculation.mistakes import nearest
from meterlake.model.errors import Invalid, NotFound, UnreadableConfiguration, UnreadableMapping
from meterlake.model.measurements.mapping import Mapping, parse_mapping
from meterlake.model.measurements.receipt import Delivery, Receipt
from meterlake.model.values.documents import parse
from meterlake.pipeline.ingest.derivations import read_meters
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.run import ingest_file, preview_file
from meterlake.pipeline.jobs.progress import OfFiles, Progress, untold
from meterlake.stores import Organization
from meterlake.stores.files.folders import file_name

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


def mapping_files(folder: Path) -> list[Path]:
    """The files of a folder that are mappings, by name."""
    if not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix in _SUFFIXES and not path.name.startswith(".")
    )


def claimed_by(organization: Organization, name: str) -> Mapping | None:
    """The organization's mapping that is for files of that name.

    Raises:
        UnreadableMapping: One is broken.
    """
    folder = drop_folder(organization.stores, organization.code)
    return claiming(folder_mappings(folder.mappings), name)


def folder_mappings(folder: Path) -> list[Mapping]:
    """The mappings of a folder, by the names of their files.

    Raises:
        UnreadableMapping: One is broken, or names no files that it is for.
    """
    paths = mapping_files(folder)
    found = [load_mapping(path) for path in paths]
    for path, mapping in zip(paths, found, strict=True):
        if not mapping.files:
            raise UnreadableMapping(
                path.name, None, "files: names no dropped files; give the pattern of their names"
            )
    return found


def mapping_problems(organization: Organization, mapping: Mapping) -> list[str]:
    """What of a mapping does not fit the meters: each rule's meter, and its fields."""
    meters, _ = read_meters(organization.state, organization.id)
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


def expand(paths: Iterable[Path]) -> list[Path]:
    """The files that are meant: folders become all files below them, by name, without hidden ones.

    Raises:
        NotFound: There is no such file or folder.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(
                each
                for each in path.rglob("*")
                if each.is_file()
                and not any(part.startswith(".") for part in each.relative_to(path).parts)
            )
        elif path.exists():
            found.append(path)
        else:
            raise NotFound("file", str(path))
    return found


def ingest_files(
    organization: Organization,
    files: Sequence[Path],
    mapping: Path | None = None,
    progress: Progress = untold,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Receipt]:
    """Ingest files where they lie, one after the other; they are left as they are.

    Args:
        organization: The organization.
        files: The files.
        mapping: How to read all of them; when None, the drop folder's mapping that claims a name.
        progress: Told how far the files are read, block by block.
        stop: Asked before each file.

    Raises:
        Invalid: A file's name is no text.
        UnreadableMapping: A mapping is broken.
        Unavailable: The disk or the lake failed.
    """
    told = OfFiles(files, progress)
    for path, delivery, claimed in _deliveries(organization, files, mapping):
        if stop():
            return
        yield ingest_file(organization, path, delivery, claimed, told)
        told.finish(path)


def preview_files(
    organization: Organization,
    files: Sequence[Path],
    mapping: Path | None = None,
    progress: Progress = untold,
) -> Iterator[Receipt]:
    """Tell what would become of each file if it were ingested now; nothing is stored.

    Raises:
        Invalid: A file's name is no text.
        UnreadableMapping: A mapping is broken.
        Unavailable: The disk or the lake failed.
    """
    told = OfFiles(files, progress)
    for path, delivery, claimed in _deliveries(organization, files, mapping):
        yield preview_file(organization, path, delivery, claimed, told)
        told.finish(path)


def _deliveries(
    organization: Organization, files: Iterable[Path], mapping: Path | None
) -> Iterator[tuple[Path, Delivery, Mapping | None]]:
    given = load_mapping(mapping) if mapping else None
    folder = drop_folder(organization.stores, organization.code)
    known = [] if given else folder_mappings(folder.mappings)
    for path in files:
        if path.name != file_name(path):
            raise Invalid("file name", path.name, "it must be UTF-8 text")
        delivery = Delivery(str(uuid4()), path.name, organization.now())
        yield path, delivery, given or claiming(known, delivery.name)
