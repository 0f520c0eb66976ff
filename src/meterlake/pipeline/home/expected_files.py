"""Files that are expected, and those of them that have not come."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from meterlake.model.errors import Conflict
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.uploads import waiting
from meterlake.stores import Stores
from meterlake.stores.files.folders import file_name

_NAMES: Final = "SELECT DISTINCT name FROM lake.source WHERE status = 'done'"


def missing_files(stores: Stores, org_id: str, patterns: Sequence[str]) -> list[str]:
    """The patterns that no file has: none that is ingested, uploaded, or lies in the drop folder.

    Args:
        stores: The home's stores.
        org_id: The organization.
        patterns: Of names, such as `usage-*.csv`; a case matters.
    """
    if not patterns:
        return []
    names = set(_known_names(stores, org_id))
    return [each for each in patterns if not any(fnmatchcase(name, each) for name in names)]


def late_files_error(missing: Sequence[str]) -> Conflict:
    """The refusal to go on with a month without the files that are expected."""
    return Conflict(
        f"no file {', '.join(missing)} came in time; deliver it, or expect it no more, and close"
        " the month again"
    )


def _known_names(stores: Stores, org_id: str) -> Iterable[str]:
    with stores.lake(org_id).reader() as connection:
        yield from (name for (name,) in connection.execute(_NAMES).fetchall())
    folder = drop_folder(stores, stores.state.organization(org_id).code)
    if folder.inbox.is_dir():
        yield from map(file_name, folder.inbox.iterdir())
    yield from (each.name for each in waiting(stores, org_id))
