"""The ledger of an account's commitments and balances while its bills are made."""

from collections.abc import Callable, Iterable

from meterlake.model.bills.ledger import Consumption, Movement, PostingKind
from meterlake.stages.bill.credits.credit_sources import NO_MOVEMENTS, Movements
from meterlake.stages.bill.credits.line_credits import NO_CREDITS, LineCredits
from meterlake.stages.bill.periods.due import BillIdentity


def _never(_: BillIdentity) -> bool:
    return False


class AccountLedger:
    """What came in and went out, as the next bill finds it.

    A bill that is made again draws anew: what it drew before is taken back. One that is locked, or
    may not be made any more, keeps what it drew, whatever it comes to now.

    Attributes:
        read: As it was at first.
        movements: As it is now, by the ids of sources.
    """

    def __init__(
        self,
        movements: Movements = NO_MOVEMENTS,
        is_final: Callable[[BillIdentity], bool] = _never,
        credits: LineCredits = NO_CREDITS,
    ) -> None:
        """Begin.

        Args:
            movements: As the ledger has them, by the ids of sources.
            is_final: Whether a bill stays as it is.
            credits: What people credit on its bills: nothing pays for that.
        """
        self.credits = credits
        self.read = movements
        self.movements = {id_: list(found) for id_, found in movements.items()}
        self._is_final = is_final

    def note_draws(self, key: BillIdentity, draws: Iterable[Consumption]) -> None:
        """Put what a bill draws in place of what it drew."""
        if self._is_final(key):
            return
        rank = key.rank
        for id_, found in self.movements.items():
            self.movements[id_] = [
                each
                for each in found
                if each.bill != rank or each.kind is not PostingKind.CONSUMPTION
            ]
        for draw in draws:
            change = draw.amount.copy_negate()
            movement = Movement(draw.account, PostingKind.CONSUMPTION, change, None, rank)
            self.movements.setdefault(draw.account.id, []).append(movement)
