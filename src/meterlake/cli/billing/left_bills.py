"""Bills that came out as other ones and were left as they were, as people and programs read them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meterlake.cli.shell.amounts import AmountText
    from meterlake.cli.shell.output import Output
    from meterlake.pipeline.billing.run import Billed


def would_be(billed: "Billed") -> dict[str, Any]:
    """What a bill would come to that was left alone, and what differs; nothing of one that is what was calculated."""
    if billed.would_be is None:
        return {}
    return {
        "wouldBe": billed.would_be.total,
        "wouldBeCurrency": billed.would_be.currency,
        "differs": [each.to_wire() for each in billed.differs],
    }


def show_left_bills(bills: "Iterable[Billed]", amounts: "AmountText", output: "Output") -> None:
    """Print the bills that were left alone as a table, each with what it is, what it would be, and what differs."""
    rows = [_row(each, amounts) for each in bills if each.would_be is not None]
    columns = (
        *("!account", "billDate=bill date", "total", "wouldBe=would be", "status"),
        "differs=what differs",
    )
    output.rows(rows, columns, "Left as they were")


def _row(billed: "Billed", amounts: "AmountText") -> dict[str, Any]:
    assert billed.would_be is not None
    return {
        "account": billed.account_code,
        "billDate": billed.bill_date,
        "total": amounts.money(billed.total, billed.currency),
        "wouldBe": amounts.money(*billed.would_be),
        "status": str(billed.stored),
        "differs": billed.difference,
    }
