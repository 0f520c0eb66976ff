"""Files that somebody names, instead of dropping them: the verb `ingest_files`."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from uuid import uuid4

from meterlake.model.errors import Invalid, NotFound
from meterlake.model.receipt import Delivery, Receipt
from meterlake.pipeline.drop_folder import drop_folder
from meterlake.pipeline.ingest import ingest_file
from meterlake.pipeline.mappings import claiming, folder_mappings, load_mapping
from meterlake.pipeline.staging import Progress
from meterlake.stores import Stores
from meterlake.stores.source_file import file_name
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
    files: Iterable[Path],
    mapping: Path | None = None,
    progress: Progress | None = None,
) -> Iterator[Receipt]:
    """Ingest files where they lie, one after the other; they are left as they are.

    Args:
        stores: The home's stores.
        organization: The organization.
        files: The files.
        mapping: How to read all of them; when None, the drop folder's mapping that claims a name.
        progress: Called with the number of measurements read since the last call.

    Raises:
        Invalid: A file's name is no text.
        UnreadableMapping: A mapping is broken.
        Unavailable: The disk or the lake failed.
    """
    given = load_mapping(mapping) if mapping else None
    folder = drop_folder(stores, organization.code)
    known = [] if given else folder_mappings(folder.mappings)
    for path in files:
        if path.name != file_name(path):
            raise Invalid("file name", path.name, "UTF-8 text")
        delivery = Delivery(str(uuid4()), path.name, stores.now())
        claimed = given or claiming(known, delivery.name)
        yield ingest_file(stores, organization.id, path, delivery, claimed, progress)
