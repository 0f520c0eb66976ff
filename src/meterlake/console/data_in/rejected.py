"""Pages of rejected rows: found by reason, mended, given in again, or given up with a reason."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from starlette.responses import Response

from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.lists import Column, ListFilter, Listing, show_list
from meterlake.console.shell.page import Visit, page_routes, words
from meterlake.model.measurements.measurement import CATEGORY_KEYS, FIXED_KEYS, NUMERIC_KEYS
from meterlake.model.measurements.rejection import Reason
from meterlake.model.values import wire
from meterlake.model.values.plurals import counted

REJECTED: Final = "/console/rejected"
_API: Final = "/measurements/rejected"
# Rows that are changed at once; more would be a body that the API refuses.
_CHANGED_MAX: Final = 1_000
_API_PAGE: Final = 200
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?")
# What fields of a measurement are called in forms.
_FIELD: Final = "field:"
_HINTS: Final = {
    "meter": "The code of the meter.",
    "account": "The code of the customer.",
    "uid": "What names the measurement: of those with the same uid, one counts.",
    "ts": "When it was used, such as 2026-10-31T10:00:00Z.",
    "ets": "Until when, if the usage lasted; empty for a single instant.",
}
_STATUSES: Final = ("open", "dismissed", "withdrawn", "requeued", "all")
_FILTERS: Final = (
    ListFilter("reason", "Reason", tuple((each.value, words(each.value)) for each in Reason)),
    ListFilter("source", "File or source"),
    ListFilter("meter", "Meter"),
    ListFilter("uid", "Uid"),
    ListFilter("since", "Came since", type="date", is_instant=True),
    ListFilter("until", "Came before", type="date", is_instant=True),
    ListFilter(
        "status", "State", tuple((each, words(each)) for each in _STATUSES[1:]), nothing="Open"
    ),
    ListFilter("delivery", "Delivery or job"),
)
_LISTING: Final = Listing(
    "Rejected rows",
    _API,
    (
        Column("Row", "id", "code", link=f"{REJECTED}/{{id}}"),
        Column("State", "status", "status"),
        Column("Reason", "reason", "words", sort="reason"),
        Column("Field", "field"),
        Column("Detail", "detail"),
        Column("Meter", "meter", "code", sort="meter"),
        Column("Uid", "uid"),
        Column("File", "name", link="/console/data-in/sources/{identity}", sort="name"),
        Column("Line", "row", "number"),
        Column("Original text", "original"),
        Column("Came", "receivedAt", "instant", sort="receivedAt"),
        Column("Dismissed because", "because"),
    ),
    empty=(
        "No row waits",
        "Rows that break a rule wait here, with the reason and the original text of each.",
    ),
    filters=_FILTERS,
)


async def list_rejected(visit: Visit) -> Response:
    """One page of rejected rows with what can be done with many at once, or all as a file."""
    status = await visit.api.find("/measurements/status")
    reasons = sorted((status or {}).get("rejected", {}).items(), key=lambda each: -each[1])
    chosen = {each.name for each in _FILTERS if visit.query(each.name)} - {"status"}
    return await show_list(
        visit,
        _LISTING,
        "data_in/rejected.html",
        reasons=reasons,
        is_narrowed=bool(chosen),
        state=visit.query("status") or "open",
    )


async def show_rejected(visit: Visit) -> Response:
    """One rejected row: its text, what was wrong, what became of it, and a form that mends it."""
    row = await visit.api.get(f"{_API}/{visit.request.path_params['id']}")
    await visit.people()
    return visit.page(
        "data_in/rejected_row.html",
        row=row,
        fields=_wrong_first(_fields(row.get("measurement") or {}), row.get("field")),
        hints=_HINTS,
        is_mendable=row["status"] in {"open", "dismissed", "withdrawn"},
    )


async def change_rejected_row(visit: Visit) -> Response:
    """Give one row in again, as it is or mended; give it up; or take it up again."""
    id_ = visit.request.path_params["id"]
    target = f"{REJECTED}/{id_}"
    match visit.field("action"):
        case "requeue":
            return visit.go(target, _told(await _requeue(visit, [{"id": id_}])))
        case "mend":
            row = await visit.api.get(f"{_API}/{id_}")
            mended = _mended(visit, row.get("measurement") or {})
            done = await _requeue(visit, [{"id": id_, "measurement": mended}])
            return visit.go(target, _told(done))
        case action:
            return await _decide(visit, action, {"rows": [id_]}, target)


async def change_rejected(visit: Visit) -> Response:
    """Carry out what was asked of the rows that were ticked, or of all that the filters mean."""
    target = visit.link()
    match visit.field("action"):
        case "set":
            return visit.go(target, _told(await _requeue(visit, await _changed_rows(visit))))
        case "requeue":
            which = _which(visit)
            if "rows" in which:
                which = {"rows": [{"id": each} for each in which["rows"]]}
            return visit.go(target, _told(await visit.api.send("POST", f"{_API}/requeue", which)))
        case action:
            return await _decide(visit, action, _which(visit), target)


def _which(visit: Visit) -> dict[str, Any]:
    """Which rows are meant, as the API takes it.

    Raises:
        ApiRefusalError: None is.
    """
    if visit.field("scope") == "all":
        names = {each.name: each.value(visit) for each in _FILTERS if each.name != "status"}
        return {name: value for name, value in names.items() if value}
    ids = visit.form.get("row", [])
    if not ids:
        raise ApiRefusalError(400, "No row was ticked. Tick those that you mean.")
    return {"rows": ids}


async def _decide(visit: Visit, action: str, which: dict[str, Any], target: str) -> Response:
    """Give rows up for a reason, or take them up again."""
    match action:
        case "dismiss":
            body = {**which, "because": visit.field("reason")}
            done = await visit.api.send("POST", f"{_API}/dismiss", body)
            said = (
                f"You dismissed {counted(int(done['rows']), 'row')}; nobody waits for them any more."
                " You can take them up again from the list of dismissed rows."
            )
        case "reopen":
            done = await visit.api.send("POST", f"{_API}/reopen", which)
            said = f"You took up {counted(int(done['rows']), 'row')} again."
        case _:
            raise visit.unknown_action("rejected rows")
    return visit.go(target, said)


async def _requeue(visit: Visit, rows: list[dict[str, Any]]) -> Any:
    return await visit.api.send("POST", f"{_API}/requeue", {"rows": rows})


def _told(done: Mapping[str, Any]) -> str:
    """What came of giving rows in again."""
    parts = [
        f"{counted(int(done['accepted']), 'row')} came in",
        f"{counted(int(done['repeats']), 'repeat')}",
        f"{int(done['rejected']):,} rejected again",
    ]
    if done["settled"]:
        parts.append(f"{int(done['settled']):,} had come in already")
    if done["unreadable"]:
        parts.append(f"{len(done['unreadable']):,} must be edited first")
    return ", ".join(parts) + "."


async def _changed_rows(visit: Visit) -> list[dict[str, Any]]:
    """The rows that are meant, with one field of each set to the same value.

    Raises:
        ApiRefusalError: There are too many, or none of those that are meant can be edited.
    """
    name, text = visit.field("name"), visit.field("value")
    if not name:
        raise ApiRefusalError(400, "Say which field is to change, such as meter or measure.gb.")
    which = _which(visit)
    wanted = set(which["rows"]) if "rows" in which else None
    found: list[dict[str, Any]] = []
    token = None
    while True:
        query = _LISTING.parameters(visit)
        answer = await visit.api.get(_API, pageSize=_API_PAGE, nextToken=token, **query)
        found += [each for each in answer["data"] if wanted is None or each["id"] in wanted]
        token = answer.get("nextToken")
        if len(found) > _CHANGED_MAX:
            reason = f"More than {_CHANGED_MAX:,} rows fit the filters. Narrow them."
            raise ApiRefusalError(400, reason)
        if not token or wanted == {each["id"] for each in found}:
            break
    rows = [
        {"id": each["id"], "measurement": _with_field(each["measurement"], name, text)}
        for each in found
        if each.get("measurement")
    ]
    if not rows:
        reason = "None of these rows can be edited together. Open one and write it anew."
        raise ApiRefusalError(400, reason)
    return rows


# --- Measurements as fields of a form -------------------------------------------------------------


def _fields(measurement: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a measurement by name, `measure.gb`, each as text; the fixed ones come first."""
    found = dict.fromkeys(FIXED_KEYS, "")
    for name, value in measurement.items():
        if name in CATEGORY_KEYS and isinstance(value, Mapping):
            found |= {f"{name}.{code}": _text(each) for code, each in value.items()}
        else:
            found[name] = _text(value)
    return found


def _wrong_first(fields: dict[str, str], wrong: str | None) -> dict[str, str]:
    """The fields with the one that the reason names in front."""
    return fields if wrong is None else {wrong: fields.get(wrong, "")} | fields


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:f}" if isinstance(value, Decimal) else wire.dumps(value).decode()


def _mended(visit: Visit, measurement: Mapping[str, Any]) -> dict[str, Any]:
    """A measurement as a form has it: what was not touched stays as it came, empty fields go."""
    before = _fields(measurement)
    texts = {
        name.removeprefix(_FIELD): found[0].strip()
        for name, found in visit.form.items()
        if name.startswith(_FIELD)
    }
    if visit.field("name"):
        texts[visit.field("name")] = visit.field("value")
    found = dict(measurement)
    for name, text in texts.items():
        if text != before.get(name, ""):
            found = _with_field(found, name, text)
    return found


def _with_field(measurement: Mapping[str, Any], name: str, text: str) -> dict[str, Any]:
    """A measurement with another value of one field; without it if the text is empty."""
    found = {
        key: dict(value) if isinstance(value, Mapping) else value
        for key, value in measurement.items()
    }
    category, dot, code = name.partition(".")
    if not (dot and category in CATEGORY_KEYS):
        found.pop(name, None)
        return found | ({name: text} if text else {})
    values = found.get(category)
    values = values if isinstance(values, dict) else {}
    values.pop(code, None)
    if text:
        is_number = category in NUMERIC_KEYS and _NUMBER.fullmatch(text)
        values[code] = Decimal(text) if is_number else text
    return found | {category: values}


ROUTES: Final = (
    *page_routes(REJECTED, list_rejected, change_rejected, "ConsoleRejected"),
    *page_routes(f"{REJECTED}/{{id}}", show_rejected, change_rejected_row, "ConsoleRejectedRow"),
)
