"""Digests of all that the bills of an account are calculated from.

Bills that were stored with the digest that their account has now would come out as they are: nobody
has to make, compare and store them. So a digest covers rather too much than too little: the whole
configuration that is no account's, all that the account's family has, all quantities of the family,
the ledger of the account, and the code itself. What is not about one family counts for all.

What bills draw, and which bills there are, changes with their calculation. A digest of bills that
were made has both as they are afterwards, so that it is the one that the next calculation finds.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final

import msgspec

from meterlake.model.bills.ledger import Movement, PostingKind
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.owned_entities import ACCOUNT_ENTITIES
from meterlake.model.values import wire
from meterlake.model.values.money import ZERO, exact, plain
from meterlake.model.values.version import calculation_digest
from meterlake.stages.bill.charges.line_draft import BillInputs
from meterlake.stages.bill.credits.credit_sources import AccountLedger
from meterlake.stages.bill.periods.due_periods import BillIdentity
from meterlake.stages.bill.terms.terms import AccountTerms, BillingTerms

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_OF_FAMILIES: Final = frozenset({Account, *ACCOUNT_ENTITIES})
# Of what is not about one family.
_COMMON: Final = ""


class InputDigests:
    """The digests of a run's accounts."""

    def __init__(
        self, terms: BillingTerms, inputs: BillInputs, closed_until: date | None = None
    ) -> None:
        """Begin.

        Args:
            terms: What holds in the run.
            inputs: What its bills have in common.
            closed_until: The day up to which bills stay as they are.
        """
        # By the ids of accounts, what names all that are related: the topmost of them.
        parents = {
            each.id: each.entity.parent_account_id for each in terms.configuration.all(Account)
        }
        self._family_of = {id_: _find_top(id_, parents) if parents[id_] else id_ for id_ in parents}
        self._owners = {id_: each.account_id for id_, each in terms.usage_owners.items()}
        parts: dict[str, list[bytes]] = defaultdict(list)
        kinds: Iterable[type[Any]] = terms.configuration.kinds()
        for kind in kinds:
            for record in terms.configuration.all(kind):
                family = _COMMON
                if kind in _OF_FAMILIES:
                    family = self._family(
                        record.id if kind is Account else record.entity.account_id
                    )
                parts[family].append(_ENCODE((record.id, record.version, record.modified)))
        for quantity in inputs.quantities.values():
            parts[self._family(quantity.account_id)].append(_ENCODE(quantity))
        for missing, reason in inputs.missing.items():
            parts[self._family(missing.account_id)].append(_ENCODE((missing, reason)))
        # What the bills of all accounts depend on beside configuration and usage.
        run = (
            calculation_digest(),
            *(
                repr(terms.selection.days),
                terms.selection.open_day,
                terms.selection.frequency,
                terms.selection.interval,
            ),
            wire.dumps_sorted(terms.selection.overrides.to_wire()),
            closed_until,
        )
        parts[_COMMON] += [_ENCODE(run), _ENCODE(sorted(inputs.left_out.items()))]
        # The digest of parts in any order; each of them says where it ends.
        self._digests = {
            family: sha256(b"".join(sorted(found))).digest() for family, found in parts.items()
        }

    def of_account(
        self, account_terms: AccountTerms, bills: Collection[BillIdentity], ledger: AccountLedger
    ) -> str:
        """The digest of an account.

        Args:
            account_terms: What holds for the account.
            bills: Those that it has, as far as the run makes them again.
            ledger: Of its commitments and balances.
        """
        own = (
            self._digests[_COMMON],
            self._digests[self._family(account_terms.account.id)],
            account_terms.account.id,
            sorted({each.key for each in account_terms.bills}),
            sorted(bills),
            [_describe_source(*each) for each in sorted(ledger.movements.items())],
            sorted((key, list(found)) for key, found in ledger.credits.items()),
        )
        return sha256(_ENCODE(own)).hexdigest()

    def _family(self, usage_id: str) -> str:
        """The family of an account, of a pool or of a part of one; what is unknown is common."""
        account_id = self._owners.get(usage_id, usage_id)
        return self._family_of.get(account_id, _COMMON)


def _find_top(account_id: str, parents: Mapping[str, str | None]) -> str:
    seen = {account_id}
    while (parent := parents.get(account_id)) is not None:
        if parent in seen:
            return _COMMON
        seen.add(account_id := parent)
    return account_id


def _describe_source(source_id: str, movements: Iterable[Movement]) -> tuple[Any, ...]:
    """What came into a source, one by one, and what each bill drew of it, which is a sum."""
    others: list[Movement] = []
    drawn: dict[tuple[Any, ...], Decimal] = defaultdict(lambda: ZERO)
    with exact():
        for each in movements:
            if each.kind is PostingKind.CONSUMPTION:
                drawn[each.account, each.bill, each.is_final] += each.change
            else:
                others.append(each)
    draws = (_ENCODE((*key, plain(change))) for key, change in drawn.items() if change)
    return source_id, others, sorted(draws)
