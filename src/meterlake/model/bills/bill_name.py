"""What people and files call a bill: its customer, its time and its number, never an id alone."""

import re
from collections.abc import Iterable
from datetime import date
from typing import Final

# What file systems and spreadsheets take, of any language.
_NOT_OF_NAMES: Final = re.compile(r"[^\w.-]+")
_USUAL: Final = ("MONTHLY", 1)


def bill_reference(
    account_code: str, last_day: date, frequency: str, interval: int, group: str = ""
) -> str:
    """What stands for the number of a bill that has none: no other bill has the same.

    Args:
        account_code: Whose bill it is.
        last_day: Of its period.
        frequency: How often such bills are made.
        interval: Every how many of these.
        group: What tells several bills of the same time apart; empty mostly.

    >>> bill_reference("acme", date(2026, 10, 31), "MONTHLY", 1)
    'acme-2026-10-31'
    >>> bill_reference("acme", date(2026, 12, 31), "MONTHLY", 3)
    'acme-2026-12-31-monthly-3'
    """
    parts = [account_code, last_day.isoformat()]
    if (frequency, interval) != _USUAL:
        parts += [frequency.lower(), *([f"{interval}"] if interval != 1 else [])]
    return "-".join([*parts, *([group] if group else [])])


def bill_file_name(account_code: str, last_day: date, number: str | None) -> str:
    """The name of a file of a bill, without its ending: files of a folder sort by customer and month.

    >>> bill_file_name("acme", date(2026, 10, 31), "INV/17")
    'acme_2026-10_INV-17'
    """
    parts = [account_code, f"{last_day:%Y-%m}", *([number] if number else [])]
    return "_".join(_NOT_OF_NAMES.sub("-", each).strip("-.") or "-" for each in parts)


def bundle_file_name(last_days: Iterable[date], ending: str) -> str:
    """The name of a file of several bills: their month, or the first and the last one.

    >>> bundle_file_name([date(2026, 10, 31)], "zip")
    'bills_2026-10.zip'
    >>> bundle_file_name([date(2026, 10, 31), date(2026, 8, 31)], "pdf")
    'bills_2026-08_2026-10.pdf'
    """
    months = sorted({f"{each:%Y-%m}" for each in last_days})
    return "_".join(["bills", *months[:1], *months[1:][-1:]]) + f".{ending}"
