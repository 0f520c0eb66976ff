"""Backfills: stored measurements corrected on purpose, seen before they are, and revertible."""

from meterlake.model.work.backfill import Backfill
from meterlake.pipeline.backfill.lifecycle import (
    Order,
    apply,
    drop,
    history,
    list_backfills,
    new_id,
    note,
    restart,
    revert,
    show,
    start,
)

__all__ = [
    "Backfill",
    "Order",
    "apply",
    "drop",
    "history",
    "list_backfills",
    "new_id",
    "note",
    "restart",
    "revert",
    "show",
    "start",
]
