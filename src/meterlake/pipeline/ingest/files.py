"""Files that somebody names, instead of dropping them: the verb `ingest_files`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

from meterlake.model.errors import Invalid, NotFound
from meterlake.model.measurements.mapping import Mapping
from meterlake.model.measurements.receipt import Delivery, Receipt
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.mappings import claiming, folder_mappings, load_mapping
from meterlake.pipeline.ingest.run import ingest_file, preview_file
from meterlake.pipeline.jobs.progress import OfFiles, Progress, untold
from meterlake.stores import Stores
from meterlake.stores.files.folders import file_name
from meterlake.stores.state import Organization


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
                if each.is_file() and not _hidden(each.relative_to(path))
            )
        elif path.exists():
            found.append(path)
        else:
            raise NotFound("file", str(path))
    return found


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def ingest_files(
    stores: Stores,
    organization: Organization,
    files: Sequence[Path],
    mapping: Path | None = None,
    progress: Progress = untold,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Receipt]:
    """Ingest files where they lie, one after the other; they are left as they are.

    Args:
        stores: The home's stores.
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
    for path, delivery, claimed in _deliveries(stores, organization, files, mapping):
        if stop():
            return
        yield ingest_file(stores, organization.id, path, delivery, claimed, told)
        told.finish(path)


def preview_files(
    stores: Stores,
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
    for path, delivery, claimed in _deliveries(stores, organization, files, mapping):
        yield preview_file(stores, organization.id, path, delivery, claimed, told)
        told.finish(path)


def _deliveries(
    stores: Stores, organization: Organization, files: Iterable[Path], mapping: Path | None
) -> Iterator[tuple[Path, Delivery, Mapping | None]]:
    given = load_mapping(mapping) if mapping else None
    folder = drop_folder(stores, organization.code)
    known = [] if given else folder_mappings(folder.mappings)
    for path in files:
        if path.name != file_name(path):
            raise Invalid("file name", path.name, "it must be UTF-8 text")
        delivery = Delivery(str(uuid4()), path.name, stores.now())
        yield path, delivery, given or claiming(known, delivery.name)
