"""Accounts of which State has a damaged row: they are not billed, by name, and all others are."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sqlalchemy import select

from meterlake.model.bills.bill import Failure
from meterlake.model.customers.accounts import Account
from meterlake.stages.bill import BillSelection
from meterlake.stores import Organization
from meterlake.stores.state.billing.accounts.usage_accounts import read_relatives
from meterlake.stores.state.billing.bills.versions import keys_of
from meterlake.stores.state.core.reader import DamagedRow
from meterlake.stores.state.core.tables import ENTITY, ENTITY_REFERENCE

T = TypeVar("T")


@dataclass(slots=True)
class DamagedAccounts:
    """Those that a run leaves out, and why.

    Attributes:
        failures: By the ids of the accounts.
    """

    organization: Organization
    failures: dict[str, Failure] = field(default_factory=dict)

    def work_without(
        self, selection: BillSelection, work: Callable[[BillSelection], T]
    ) -> tuple[BillSelection, T]:
        """Do work for a selection, and again without the accounts of each damaged row that it meets.

        Args:
            selection: Which bills.
            work: What is done, which stores nothing before it has read all.

        Returns:
            The selection that was left, and what the work came to.

        Raises:
            DamagedRow: A row belongs to no account of the selection.
        """
        while True:
            try:
                return selection, work(selection)
            except DamagedRow as error:
                rest = self.leave_out(selection, error)
                if rest is None:
                    raise
                selection = rest

    def leave_out(self, selection: BillSelection, error: DamagedRow) -> BillSelection | None:
        """A selection without the accounts of a damaged row, and without their relatives.

        Args:
            selection: Which bills were to be made.
            error: The row.

        Returns:
            None if the row belongs to no account of the selection: then nothing can be billed.
        """
        with self.organization.reading() as reader:
            # The account that a row is, or those that it belongs to.
            kind, row_id, *_ = error.args
            if kind == Account.__name__:
                owners = {row_id}
            elif kind == "Bill":
                owners = {each.account_id for each in keys_of(reader, [row_id]).values()}
            else:
                table = ENTITY_REFERENCE.c
                query = select(table.target_id).where(
                    *(table.org == reader.org_id, table.kind == kind, table.id == row_id),
                    table.target_kind == Account.__name__,
                )
                owners = set(reader.connection.execute(query).scalars())
            family = read_relatives(reader, owners)
            accounts = select(ENTITY.c.id, ENTITY.c.code).where(
                ENTITY.c.org == reader.org_id, ENTITY.c.kind == Account.__name__
            )
            codes = {row.id: row.code for row in reader.connection.execute(accounts)}
        known = codes.keys() if selection.account_ids is None else selection.account_ids
        left_out = (family & set(known)) - self.failures.keys()
        for id_ in sorted(left_out):
            self.failures[id_] = Failure(id_, codes.get(id_) or id_, str(error))
        rest = frozenset(known) - self.failures.keys()
        return replace(selection, account_ids=rest) if left_out else None
