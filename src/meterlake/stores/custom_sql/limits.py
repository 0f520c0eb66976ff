"""What custom SQL may take."""

from typing import Final, NamedTuple

from meterlake.settings import Settings


class SqlLimits(NamedTuple):
    """What the SQL of an aggregation may take.

    Attributes:
        memory: Such as `256MB`, for one account; nothing is put on disk.
        seconds: How long it may be planned and run for one account.
        run_seconds: How long it may take for all accounts of a run together.
    """

    memory: str = "256MB"
    seconds: float = 10
    run_seconds: float = 3600


LIMITS: Final = SqlLimits()


def limits_of(settings: Settings) -> SqlLimits:
    """The limits that the settings name."""
    return SqlLimits(
        settings.custom_sql_memory, settings.custom_sql_seconds, settings.custom_sql_run_seconds
    )
