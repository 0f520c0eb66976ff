"""Backfills over HTTP: asked for, looked at, and then applied, dropped or reverted."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from meterlake.api.billing.bills import RESOURCE as BILL
from meterlake.api.entities import ordered_page
from meterlake.api.responses.backfills import BackfillFile, BackfillRequest
from meterlake.api.server import body
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation
from meterlake.api.server.readable_fields import permit, permit_each, permit_sum, visible_rows
from meterlake.model.errors import Conflict, Invalid, NotFound, Required, UnknownField
from meterlake.model.values.period import format_instant
from meterlake.model.values.problems import read, suggest_name, unknown_names
from meterlake.model.work.backfill import Backfill, BackfillStatus, check_backfill_id
from meterlake.pipeline import backfill as backfills
from meterlake.pipeline.backfill import background
from meterlake.pipeline.backfill.background import BackfillAction
from meterlake.pipeline.backfill.priced import total_by_currency, with_difference
from meterlake.pipeline.backfill.selection import (
    BackfillSelection,
    resolve_backfill,
    source_names,
)
from meterlake.pipeline.backfill.staged_effects import changed_measurements
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.stores import Organization, Stores
from meterlake.stores.files.durable import disk
from meterlake.stores.state.core.pages import Page

_PAGE_MAX: Final = 100
_KIND: Final = "backfill"
_READ: Final = "measurements:retrieve"
_BACKFILLS: Final = f"{ORGANIZATION}/backfills"
_STATUSES: Final[dict[str, BackfillStatus | None]] = {each.value: each for each in BackfillStatus}
# Shown by the difference, not beside the backfill.
_LISTS: Final = ("months", "quantities", "bills", "files", "rejected")


async def start(call: Call) -> Any:
    """Write down a backfill, which the worker then stages."""
    document = await call.document()
    # Elsewhere unknown names are ignored; here one that is mistyped would correct too much.
    for unknown in unknown_names(BackfillRequest, document):
        name = unknown.place.rpartition(".")[2]
        raise UnknownField(unknown.place, unknown.value, suggest_name(name, unknown.known))
    request = read(BackfillRequest, document)
    if request.mode is None and request.id is not None:
        # It is answered with one that is there already.
        await permit_each(call, _KIND, [request.id])
    return await call.run(_start, call.organization, call.author, request)


def _start(organization: Organization, author: str, request: BackfillRequest) -> Document:
    if request.mode is None:
        if request.id is None or request.model_dump(exclude={"id"}, exclude_defaults=True):
            raise Required("mode")
        return _backfill_document(
            organization.stores, background.submit_restart(organization, request.id, author)
        )
    with _write_files(request) as (files, mapping):
        try:
            assert request.mode is not None
            options = BackfillSelection(
                mode=request.mode.value,
                reason=request.reason,
                month=request.month,
                since=request.since,
                until=request.until,
                meters=request.meters,
                accounts=request.accounts,
                source=request.source,
                uids=request.uids,
                files=files,
            )
            spec = resolve_backfill(organization, options)
        except NotFound as error:
            kind, name, _ = error.args
            raise Invalid(kind, name, f"it must be the name of a {kind} that there is") from None
        order = backfills.Order(spec, author, request.id, files, mapping)
        return _backfill_document(organization.stores, background.submit_start(organization, order))


@contextmanager
def _write_files(request: BackfillRequest) -> Iterator[tuple[list[Path], Path | None]]:
    """The files that are sent along, as files, for as long as the body runs."""
    with TemporaryDirectory(prefix="meterlake-backfill-") as name:
        folder = Path(name)
        files = [
            _write_file(folder, f"files[{number}]", each)
            for number, each in enumerate(request.files)
        ]
        yield files, _write_file(folder, "mapping", request.mapping) if request.mapping else None


def _write_file(folder: Path, field: str, file: BackfillFile) -> Path:
    if Path(file.name).name != file.name or file.name.startswith("."):
        raise Invalid(f"{field}.name", file.name, "it must be the name of a file, without a folder")
    content = body.file_bytes(f"{field}.content", file.content)
    path = folder / field / file.name
    with disk():
        path.parent.mkdir()
        path.write_bytes(content)
    return path


async def list_all(call: Call) -> Any:
    """One page of backfills, the newest first."""
    status = call.query.one_of("status", _STATUSES, default=None)
    this = ordered_page(call, _PAGE_MAX, "dtCreated")
    return await call.run(_list_backfills, call.organization, this, status)


def _list_backfills(
    organization: Organization, this: Page, status: BackfillStatus | None
) -> Document:
    found, token = backfills.list_backfills(organization, this, status)
    pending, names = background.pending_steps(organization), source_names(organization, found)
    return envelope([_document(each, pending.get(each.id), names) for each in found], token)


async def get(call: Call) -> Any:
    """One backfill: where it stands, and what was done with it."""
    return await call.run(_get, call.organization, _id(call))


def _get(organization: Organization, id: str) -> Document:
    return _backfill_document(organization.stores, backfills.show(organization, id))


async def get_difference(call: Call) -> Any:
    """What a backfill changes: quantities and bills before and after."""
    found = await call.run(backfills.show, call.organization, _id(call))
    if not found.summary:
        raise Conflict(
            f"backfill {found.id!r} is {found.status.value}: nothing is staged;"
            " stage it, and try again when its status is STAGED"
        )
    shown = {name: _rows(found.summary[name]) for name in _LISTS if name in found.summary}
    named = {"id": found.id, "mode": found.spec.mode.value, "status": found.status.value}
    if "bills" in shown:
        shown["bills"] = await visible_rows(call, BILL, shown["bills"], "billId")
        shown["bills"] = [with_difference(each) for each in shown["bills"]]
    # Of the bills that one may see.
    totals = total_by_currency(shown.get("bills", ()))
    counts = _counts(found)
    return {**named, "counts": counts, "quantities": [], "bills": [], "totals": totals, **shown}


async def get_measurements(call: Call) -> Any:
    """The first measurements that a staged backfill changes; who may not read all sees none."""
    permit(call, _READ, "measurements")
    permit_sum(call, "measurements", _READ)
    return await call.run(changed_measurements, call.organization, _id(call))


def _rows(entries: list[Any]) -> list[Any]:
    """What is listed, without members that have no value."""
    return [
        {name: value for name, value in each.items() if value is not None}
        if isinstance(each, dict)
        else each
        for each in entries
    ]


def _id(call: Call) -> str:
    """The id in the path.

    Raises:
        NotFound: It is no id, so that nothing can have it.
    """
    try:
        return check_backfill_id(call.path["id"])
    except Invalid:
        raise NotFound(_KIND, call.path["id"]) from None


def _step(step: BackfillAction) -> Handler:
    async def submit(call: Call) -> Any:
        return await call.run(_submit_step, call.organization, _id(call), step, call.author)

    return submit


def _submit_step(
    organization: Organization, id: str, step: BackfillAction, author: str
) -> Document:
    return _backfill_document(
        organization.stores, background.submit_step(organization, id, step, author)
    )


async def drop(call: Call) -> Any:
    """Throw away what a backfill staged; its history stays."""
    id_ = _id(call)
    found = await call.run(backfills.drop, call.organization, id_, call.author)
    return await call.run(_backfill_document, call.stores, found)


def _backfill_document(stores: Stores, found: Backfill) -> Document:
    organization = stores.organization(found.org_id)
    pending = background.pending_steps(organization).get(found.id)
    return _document(found, pending, source_names(organization, [found]))


def _document(
    found: Backfill, pending: BackfillAction | None, names: Mapping[str, str]
) -> Document:
    spec = found.spec
    shown = {
        "id": found.id,
        "mode": spec.mode.value,
        "status": found.status.value,
        "pending": pending and pending.value,
        "reason": spec.reason,
        "author": found.author,
        "dtCreated": format_instant(found.created),
        "since": spec.window and format_instant(spec.window.start),
        "until": spec.window and format_instant(spec.window.end),
        "meterIds": list(spec.meters) or None,
        "accountIds": list(spec.accounts) or None,
        "source": spec.source,
        "sourceName": names.get(spec.source or ""),
        "uids": list(spec.uids) or None,
        "files": list(spec.files) or None,
        "counts": _counts(found),
        "history": [{**each.to_wire(), "at": format_instant(each.at)} for each in found.history],
    }
    return {name: value for name, value in shown.items() if value is not None}


def _counts(found: Backfill) -> dict[str, int]:
    return {name: value for name, value in found.summary.items() if isinstance(value, int)}


def _operation(name: str, method: str, path: str, action: str, handler: Handler) -> Operation:
    return Operation(name, method, f"{_BACKFILLS}{path}", f"config:{action}", _KIND, handler)


OPERATIONS: Final = (
    _operation("StartBackfill", "POST", "", "create", start),
    _operation("ListBackfills", "GET", "", "retrieve", list_all),
    _operation("GetBackfill", "GET", "/{id}", "retrieve", get),
    _operation("GetBackfillDifference", "GET", "/{id}/difference", "retrieve", get_difference),
    _operation(
        "GetBackfillMeasurements", "GET", "/{id}/measurements", "retrieve", get_measurements
    ),
    _operation("ApplyBackfill", "POST", "/{id}/apply", "update", _step(BackfillAction.APPLY)),
    _operation("DropBackfill", "POST", "/{id}/drop", "update", drop),
    _operation("RevertBackfill", "POST", "/{id}/revert", "update", _step(BackfillAction.REVERT)),
)
