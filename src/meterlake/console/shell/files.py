"""Files that pages make, which browsers save under a name."""

import csv
import io
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from httpx import Response as Answer
from starlette.responses import Response

from meterlake.console.shell.api import file_headers
from meterlake.stages.export.column_kinds import MARK, STARTS


def saved_as(name: str) -> dict[str, str]:
    """The headers of a file; what is no letter, digit, point or dash of the name is a dash."""
    safe = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)
    return {
        "Cache-Control": "no-store",
        "Content-Disposition": f'attachment; filename="{safe}"',
    }


def file_of(answer: Answer, name: str = "") -> Response:
    """A file of the API as the answer of a page, under its own name or another one."""
    headers = {**file_headers(answer), "Cache-Control": "no-store"}
    if name:
        headers["content-disposition"] = saved_as(name)["Content-Disposition"]
    return Response(answer.content, headers=headers)


def csv_file(name: str, rows: Sequence[Sequence[Any]]) -> Response:
    """Rows as a CSV file."""
    return Response(csv_text(rows), headers=saved_as(name), media_type="text/csv")


def csv_text(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as CSV that no spreadsheet takes for formulas; numbers stay digit by digit."""
    text = io.StringIO()
    csv.writer(text).writerows([[_cell(value) for value in row] for row in rows])
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value:f}"
    text = str(value)
    if text.startswith(STARTS):
        try:
            Decimal(text)
        except InvalidOperation:
            return f"{MARK}{text}"
    return text
