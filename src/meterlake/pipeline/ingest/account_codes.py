"""The account codes of an organization, kept from one source to the next while nothing changes."""

from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

from meterlake.stages.ingest.validate.account_codes import AccountCodes
from meterlake.stores.state import State
from meterlake.stores.state.core.auto_accounts import AccountIds, newer_account_ids

_known: Final[WeakKeyDictionary[State, dict[str, tuple[AccountIds, AccountCodes]]]] = (
    WeakKeyDictionary()
)
_lock: Final = Lock()


def account_codes(state: State, org_id: str) -> AccountCodes:
    """All account codes as they are now; read again only if an account has changed."""
    with _lock:
        kept = _known.setdefault(state, {}).get(org_id)
    ids = newer_account_ids(state, org_id, kept[0] if kept else None)
    if kept is not None and ids.ids is kept[0].ids:
        codes = kept[1]
    else:
        codes = AccountCodes(org_id, ids.ids)
    with _lock:
        _known[state][org_id] = ids, codes
    return codes
