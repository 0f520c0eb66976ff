"""Backfills: stored measurements corrected on purpose, seen before they are, and revertible."""

from meterlake.pipeline.backfill.lifecycle import (
    Order,
    apply,
    drop,
    history,
    new_id,
    restart,
    revert,
    show,
    start,
)

__all__ = ["Order", "apply", "drop", "history", "new_id", "restart", "revert", "show", "start"]
