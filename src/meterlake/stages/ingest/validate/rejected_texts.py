"""The texts of rejected rows: as they stood in the file, and as measurements to be tried again."""

from collections.abc import Iterable, Iterator, Mapping

import polars as pl

from meterlake.model.measurements.editable_row import (
    editable_text,
    from_columns,
    limit_text,
    text_of,
)
from meterlake.model.measurements.measurement import Decoded
from meterlake.model.measurements.rejection import Reason, Rejection
from meterlake.model.measurements.text import LinesOf
from meterlake.stages.ingest.validate import parse_columns as columns


def complete_rejections(
    decoded: Decoded, parts: Mapping[int, pl.DataFrame], own_json: bool, rejected: list[Rejection]
) -> list[Rejection]:
    """Rejections of one block with the texts of their rows.

    Args:
        decoded: The block.
        parts: The measurements that its rows hold, by part, as `stages.shape` leaves them.
        own_json: Whether its lines are JSON in the wire's shape.
        rejected: Rows of the block.
    """
    if not rejected:
        return []
    if own_json and isinstance(decoded.original, LinesOf):
        lines = decoded.original
        texts = {
            row.place(): editable_text(lines.whole(row.row))
            for row in rejected
            # What is no row is none, whatever of it was kept.
            if row.reason is not Reason.MALFORMED_ROW
        }
    else:
        rows: dict[int, list[int]] = {}
        for each in rejected:
            rows.setdefault(each.part, []).append(each.row)
        texts = {
            (row, part): text
            for part, numbers in rows.items()
            if part in parts
            for row, text in _texts(parts[part], numbers)
        }
    return [
        row._replace(original=decoded.original(row.row), measurement=texts.get(row.place()))
        for row in rejected
    ]


def _texts(frame: pl.DataFrame, rows: Iterable[int]) -> Iterator[tuple[int, str | None]]:
    few = frame.filter(pl.col("row").is_in(sorted(rows)))
    names = [name for name in few.columns if name != "row"]
    values = (columns.texts(few[name]) for name in names)
    for row, *texts in zip(few["row"], *values, strict=True):
        yield row, limit_text(text_of(from_columns(dict(zip(names, texts, strict=True)))))
