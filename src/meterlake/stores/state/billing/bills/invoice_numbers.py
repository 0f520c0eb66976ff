"""The sequential numbers of bills: given once, in the order of creation, never again."""

from sqlalchemy import insert, select, update

from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.stores.state.core.tables import INVOICE_SEQUENCE
from meterlake.stores.state.core.transaction import Transaction


class InvoiceNumbers:
    """Gives numbers within a transaction; writers of an organization take turns, so none is lost.

    The counter outlives the bills: the number of a deleted bill is not given again. It only goes
    up, whatever becomes of `sequenceStartNumber` and of `billPrefix`.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._config: OrganizationConfig | None = None
        self._stored: int | None = None
        self._last: int | None = None

    def take(self) -> str | None:
        """The next number with the organization's prefix; None if it has no prefix."""
        if self._last is None:
            self._config = next(
                (each.entity for each in self._transaction.all(OrganizationConfig)), None
            )
            table = INVOICE_SEQUENCE.c
            query = select(table.last).where(table.org == self._transaction.org_id)
            self._stored = self._transaction.connection.execute(query).scalar()
            start = (self._config.sequence_start_number if self._config else None) or 0
            self._last = max(start, self._stored if self._stored is not None else start)
        assert self._last is not None
        if self._config is None or not self._config.bill_prefix:
            return None
        self._last += 1
        return f"{self._config.bill_prefix}{self._last}"

    def save(self) -> None:
        """Keep the last number that was taken; nothing is written if none was."""
        if self._last is None or self._config is None or not self._config.bill_prefix:
            return
        table, org = INVOICE_SEQUENCE, self._transaction.org_id
        own = update(table).where(table.c.org == org).values(last=self._last)
        if self._stored is None:
            self._transaction.connection.execute(insert(table).values(org=org, last=self._last))
        else:
            self._transaction.connection.execute(own)
        self._stored = self._last
