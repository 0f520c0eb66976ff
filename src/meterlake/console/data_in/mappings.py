"""Pages of mappings: how files of other programs are read, tried on a file while one edits them."""

import base64
import zlib
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.data_in.mapping_form import (
    ACCOUNT_FROM,
    FORMATS,
    WRITTEN,
    MappingForm,
    fields_of_meter,
    guess_form,
)
from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.files import saved_as
from meterlake.console.shell.lists import Column, ListFilter, Listing, show_list
from meterlake.console.shell.page import SentFile, Visit, page, page_routes
from meterlake.model.values.documents import to_yaml

MAPPINGS: Final = "/console/data-in/mappings"
BUILDER: Final = "/console/data-in/mapping"
_API: Final = "/measurements/mappings"
# Of a file that is tried; in base64 it goes to the page and back.
_HEAD_BYTES: Final = 250_000
_WITH_LINES: Final = (".csv", ".ndjson", ".jsonl")
_GZIP: Final = 31
# The number of a rule that comes after all others.
_LAST: Final = 99


async def _say_files(visit: Visit, rows: list[dict[str, Any]]) -> None:
    """Beside each mapping, which files it is for and which meters it feeds."""
    del visit
    for each in rows:
        known = each.get("mapping") or {"measurements": ()}
        each["files"] = ", ".join(known.get("files", ()))
        meters = (rule["meter"] for rule in known["measurements"])
        each["meters"] = ", ".join(dict.fromkeys(meters))


_LISTING: Final = Listing(
    "Mappings",
    _API,
    (
        Column("Mapping", "name", link=f"{BUILDER}?name={{name}}", sort="name"),
        Column("For files", "files"),
        Column("Meters", "meters"),
        Column("Problem", "problem"),
        Column("Saved", "saved", "instant", sort="saved"),
        Column("By", "author", "author"),
    ),
    empty=(
        "No mappings yet",
        "A mapping says which columns of a file of another program are the account, the time and fields.",
    ),
    intro="A mapping reads the files whose names fit its patterns: dropped and uploaded ones, and"
    " objects of inboxes. Files of other names are read in meterlake's own format.",
    filters=(ListFilter("name", "Name begins with", type="search"),),
    create=("New mapping", BUILDER, "SaveMapping"),
    complete=_say_files,
)


async def list_mappings(visit: Visit) -> Response:
    """The mappings that are kept."""
    await visit.people()
    return await show_list(visit, _LISTING)


async def build_mapping(visit: Visit) -> Response:
    """The form of a mapping, beside what becomes of the rows of a file under it."""
    name = visit.query("name")
    content, file = visit.field("content"), visit.field("file")
    form = MappingForm.read(visit.form) if visit.form else MappingForm({"blank": "yes"})
    meters = await visit.api.every("/meters")
    if name is not None and not visit.field("content") and visit.field("action") in {"", "read"}:
        form = MappingForm.of(await _saved(visit, name))
    trial, problem = None, ""
    if content:
        if visit.field("action") == "read" and name is None:
            seen = await _try(visit, file, content, None)
            form = guess_form(file, seen["columns"], meters)
        try:
            trial = await _try(visit, file, content, form.document())
        except ApiRefusalError as refusal:
            problem = refusal.reason
            trial = await _try(visit, file, content, None)
    return visit.page(
        "data_in/mapping.html",
        form=form,
        name=name,
        content=content,
        file=file,
        trial=trial,
        problem=problem,
        meters=[(each["code"], each.get("name") or each["code"]) for each in meters],
        fields={each["code"]: fields_of_meter(each) for each in meters},
        formats=FORMATS,
        written=WRITTEN,
        account_from=ACCOUNT_FROM,
    )


async def _saved(visit: Visit, name: str) -> dict[str, Any]:
    found = [each for each in await visit.api.every(_API) if each["name"] == name]
    if not found:
        raise ApiRefusalError(404, f"mapping {name!r} not found; the page Mappings lists all")
    if "mapping" not in found[0]:
        raise ApiRefusalError(400, f"{found[0]['problem']}. Change its file, or save a new one.")
    document: dict[str, Any] = found[0]["mapping"]
    return document


async def _try(visit: Visit, file: str, content: str, mapping: dict[str, Any] | None) -> Any:
    body = {"name": file, "content": content}
    told = {} if mapping is None else {"mapping": mapping}
    return await visit.api.send("POST", f"{_API}/try", body | told)


async def change_mapping(visit: Visit) -> Response:
    """Read a file, try the mapping, add a rule, download, save or delete it."""
    _take_file(visit)
    form = MappingForm.read(visit.form)
    match visit.field("action"):
        case "read" | "try":
            return await build_mapping(visit)
        case "rule":
            visit.form[f"rule{_LAST}.meter"] = [""]
            return await build_mapping(visit)
        case "download":
            return _file(form)
        case "save":
            name = visit.field("name")
            await visit.api.send("PUT", f"{_API}/{name}", form.document())
            said = f"You saved the mapping {name}. It reads files of its names from now on."
        case "delete":
            name = visit.query("name") or ""
            await visit.api.send("DELETE", f"{_API}/{name}")
            said = f"You deleted the mapping {name}. What came in through it stays."
        case _:
            raise visit.unknown_action("a mapping")
    return visit.go(MAPPINGS, said)


def _take_file(visit: Visit) -> None:
    """Keep the beginning of a file that was chosen in fields of the form.

    Raises:
        ApiRefusalError: None was chosen where one is needed, or it is too large.
    """
    if chosen := visit.files.get("chosen"):
        name, data = _beginning(chosen[-1])
        visit.form["file"] = [name]
        visit.form["content"] = [base64.b64encode(data).decode()]
    elif visit.field("action") == "read":
        raise ApiRefusalError(400, "No file was chosen. Choose one.")


def _file(form: MappingForm) -> Response:
    document = form.document()
    headers = saved_as(f"{document.get('name') or 'mapping'}.yaml")
    return Response(to_yaml(document), media_type="application/yaml", headers=headers)


def _beginning(file: SentFile) -> tuple[str, bytes]:
    """The name and the beginning of a file, as much of it as is tried.

    Raises:
        ApiRefusalError: It is too large, and its beginning alone says nothing.
    """
    # Some browsers send the folder, too.
    name, data = file.name.replace("\\", "/").rpartition("/")[2], file.content
    if len(data) <= _HEAD_BYTES:
        return name, data
    if name.lower().endswith(".gz"):
        try:
            data = zlib.decompressobj(_GZIP).decompress(data, _HEAD_BYTES + 1)
        except zlib.error as error:
            raise ApiRefusalError(
                400, f"{name} is no gzip file: {error}. Choose another."
            ) from None
        name = name[: -len(".gz")]
    if len(data) > _HEAD_BYTES:
        if not name.lower().endswith(_WITH_LINES):
            reason = (
                f"{name} has more than {_HEAD_BYTES:,} bytes, and only files with lines can be cut."
            )
            raise ApiRefusalError(400, f"{reason} Choose a smaller one of its kind.")
        data = data[:_HEAD_BYTES]
        data = data[: data.rfind(b"\n") + 1]
    return name, data


ROUTES: Final = (
    Route(MAPPINGS, page(list_mappings), methods=["GET"], name="ConsoleMappings"),
    *page_routes(BUILDER, build_mapping, change_mapping, "ConsoleMapping"),
)
