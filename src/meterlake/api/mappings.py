"""Mappings over HTTP: tried on the beginning of a file, and kept for the files that come."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from meterlake.api.responses.mappings import MappingTrialRequest
from meterlake.api.server import body
from meterlake.api.server.call import ORGANIZATION, Call, Operation
from meterlake.model.errors import Invalid
from meterlake.model.measurements.mapping import parse_mapping
from meterlake.model.values.problems import read
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.ingest.mapping_trial import describe_trial, try_mapping
from meterlake.stores import Organization
from meterlake.stores.files.durable import disk

_MAPPINGS: Final = f"{ORGANIZATION}/measurements/mappings"
# A trial is about the first rows; larger files come by an upload.
_BYTES_MAX: Final = 1_000_000


async def try_(call: Call) -> Any:
    """What becomes of the rows of a file under a mapping; nothing is kept."""
    asked = read(MappingTrialRequest, await call.document())
    content = body.file_bytes("content", asked.content)
    if len(content) > _BYTES_MAX:
        rule = f"it must have {_BYTES_MAX:,} bytes or less: send the beginning of the file"
        raise Invalid("content", f"{len(content):,} bytes", rule)
    return await call.run(_try, call.organization, asked, content)


def _try(organization: Organization, asked: MappingTrialRequest, content: bytes) -> Document:
    mapping = None if asked.mapping is None else parse_mapping(asked.mapping, "mapping")
    with TemporaryDirectory(prefix="meterlake-trial-") as folder:
        path = Path(folder) / "file"
        with disk():
            path.write_bytes(content)
        trial = try_mapping(organization, path, asked.name, mapping)
    return describe_trial(organization, trial, mapping)


OPERATIONS: Final = (
    Operation(
        "TryMapping",
        "POST",
        f"{_MAPPINGS}/try",
        "measurements:retrieve",
        "measurements",
        try_,
        limit="query",
    ),
)
