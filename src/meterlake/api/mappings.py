"""Mappings over HTTP: tried on the beginning of a file, and kept for the files that come."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from meterlake.api.entities import ORDERS, page
from meterlake.api.responses.mappings import MappingTrialRequest
from meterlake.api.server import body
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation
from meterlake.model.errors import Invalid
from meterlake.model.measurements.mapping import parse_mapping
from meterlake.model.values.plurals import counted
from meterlake.model.values.problems import read
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.pipeline.ingest.mapping_trial import describe_trial, try_mapping
from meterlake.pipeline.ingest.saved_mappings import delete_mapping, list_mappings, save_mapping
from meterlake.stores import Organization
from meterlake.stores.files.durable import disk

_MAPPINGS: Final = f"{ORGANIZATION}/measurements/mappings"
_PAGE_MAX: Final = 100
# A trial is about the first rows; larger files come by an upload.
_BYTES_MAX: Final = 1_000_000


async def try_(call: Call) -> Any:
    """What becomes of the rows of a file under a mapping; nothing is kept."""
    asked = read(MappingTrialRequest, await call.document())
    content = body.file_bytes("content", asked.content)
    if len(content) > _BYTES_MAX:
        rule = f"it must have {_BYTES_MAX:,} bytes or less: send the beginning of the file"
        raise Invalid("content", counted(len(content), "byte"), rule)
    return await call.run(_try, call.organization, asked, content)


def _try(organization: Organization, asked: MappingTrialRequest, content: bytes) -> Document:
    mapping = None if asked.mapping is None else parse_mapping(asked.mapping, "mapping")
    with TemporaryDirectory(prefix="meterlake-trial-") as folder:
        path = Path(folder) / "file"
        with disk():
            path.write_bytes(content)
        trial = try_mapping(organization, path, asked.name, mapping)
    return describe_trial(organization, trial, mapping)


async def list_(call: Call) -> Any:
    """One page of the mappings that are kept, by name or by when they were saved."""
    this = page(call, _PAGE_MAX)
    by_time = call.query.one_of("sortBy", {"name": False, "saved": True}, default=False)
    ascending = call.query.one_of("sortOrder", ORDERS, default=True)
    begins = call.query.text("name") or ""
    kept = await call.run(list_mappings, call.organization)
    found = sorted(
        (each for each in kept if each.name.lower().startswith(begins.lower())),
        key=lambda each: (each.saved.isoformat() if by_time else "", each.name),
        reverse=not ascending,
    )
    names = [each.name for each in found]
    if this.token is not None and this.token not in names:
        rule = "it must be the nextToken of the page before"
        raise Invalid("nextToken", this.token, rule)
    first = 0 if this.token is None else names.index(this.token) + 1
    shown = found[first : first + this.size]
    token = shown[-1].name if first + this.size < len(found) else None
    return envelope([each.to_wire() for each in shown], token)


async def save(call: Call) -> Any:
    """Keep a mapping under a name."""
    document = await call.document()
    saved = await call.run(
        save_mapping, call.organization, call.path["name"], document, call.author
    )
    return saved.to_wire()


async def delete(call: Call) -> Any:
    """Keep a mapping no more."""
    name = call.path["name"]
    await call.run(delete_mapping, call.organization, name)
    return {"name": name}


def _operation(id_: str, method: str, path: str, action: str, handler: Handler) -> Operation:
    return Operation(id_, method, path, f"config:{action}", "mapping", handler)


OPERATIONS: Final = (
    _operation("ListMappings", "GET", _MAPPINGS, "retrieve", list_),
    _operation("SaveMapping", "PUT", f"{_MAPPINGS}/{{name}}", "update", save),
    _operation("DeleteMapping", "DELETE", f"{_MAPPINGS}/{{name}}", "delete", delete),
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
