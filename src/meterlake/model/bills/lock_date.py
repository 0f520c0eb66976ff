"""The lock date: bills of it and before are closed."""

from datetime import date, timedelta


def day_after(lock_date: date) -> date:
    """The exclusive end of the time that a lock date closes; its own day is the last one."""
    return lock_date if lock_date == date.max else lock_date + timedelta(days=1)


def is_closed(bill_date: date, closed_until: date | None, *, locked: bool = False) -> bool:
    """Whether a bill never changes: somebody locked it, or it ends in closed time.

    >>> is_closed(date(2026, 11, 1), day_after(date(2026, 10, 31)))
    True

    Args:
        bill_date: The exclusive end of what it bills.
        closed_until: The exclusive end of closed time; None without a lock date.
        locked: Whether somebody locked this very bill.
    """
    return locked or (closed_until is not None and bill_date <= closed_until)
