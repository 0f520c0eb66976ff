"""Setting up: the home folder, its State, and organizations with their first access key."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from meterlake.model.configuration.access import SYSTEM, ServiceUser
from meterlake.model.configuration.organization import (
    BillConfig,
    Currency,
    CustomFields,
    OrganizationConfig,
)
from meterlake.model.configuration.permissions import ADMINISTRATOR, MANAGED
from meterlake.model.errors import Conflict, Invalid
from meterlake.model.resources.events import ORGANIZATION, Event, change, data
from meterlake.model.values.ids import slug
from meterlake.model.values.period import format_instant
from meterlake.pipeline.access.access import SECRET_BYTES
from meterlake.pipeline.ingest.drop_folder import DropFolder
from meterlake.settings import Settings
from meterlake.stores.files.durable import make_private
from meterlake.stores.home_settings import agree_on_settings
from meterlake.stores.lake.backends.location import check_new_lake, open_lake
from meterlake.stores.state import State, utc_now
from meterlake.stores.state.access.access import add_key, grant

_NAME_MAX: Final = 200
DAYS_BEFORE_BILL_DUE: Final = 30


@dataclass(frozen=True, slots=True)
class Initialized:
    """A new organization; the secret is known here and nowhere else."""

    org_id: str
    org_code: str
    access_key_id: str
    api_secret: str


def init_home(
    settings: Settings,
    name: str,
    make_lake: Callable[[str], None],
    now: Callable[[], datetime] = utc_now,
) -> Initialized:
    """Create an organization, and the home around it if there is none yet.

    Args:
        settings: Where the home is.
        name: The organization's name; its code follows from it.
        make_lake: Makes the lake and the folders of an organization by its id. If it fails,
            there is no organization.
        now: The clock.

    Raises:
        Invalid: The name is empty or too long.
        Conflict: There is an organization of that name.
    """
    shown = name.strip()
    if not 0 < len(shown) <= _NAME_MAX or not shown.isprintable():
        raise Invalid("name", name, f"it must have 1 to {_NAME_MAX} printable characters")
    with State.open(settings, now, create=True) as state:
        return _create(state, shown, make_lake)


def _create(state: State, name: str, make_lake: Callable[[str], None]) -> Initialized:
    known = state.organizations()
    for organization in known:
        if organization.name.casefold() == name.casefold():
            code = organization.code
            raise Conflict(
                f"this home has an organization named {name!r} already, code {code!r};"
                " choose another name, or use that one"
            )
    plain = slug(name) or "organization"
    taken = {organization.code for organization in known}
    code, number = plain, 1
    while code in taken:
        number += 1
        code = f"{plain}-{number}"
    secret = secrets.token_urlsafe(SECRET_BYTES)
    with state.new_organization(code, name, SYSTEM) as transaction:
        # The event of a new organization: it is no entity, and has no other events.
        id_, now = transaction.org_id, format_instant(transaction.now)
        shown = {
            "id": id_,
            "orgId": id_,
            "version": 1,
            "organizationName": name,
            "shortName": code,
            "createdBy": transaction.author,
            "dtCreated": now,
            "lastModifiedBy": transaction.author,
            "dtLastModified": now,
        }
        event = Event(change(ORGANIZATION, shown, None), "Organization", id_, data(shown, None))
        transaction.journal.add(event)
        transaction.create(Currency(code="USD", name="US dollar"))
        transaction.create(OrganizationConfig(days_before_bill_due=DAYS_BEFORE_BILL_DUE))
        transaction.create(CustomFields())
        transaction.create(BillConfig())
        managed = [transaction.create(policy) for policy in MANAGED]
        user = transaction.create(ServiceUser(name=ADMINISTRATOR.name))
        grant(transaction, managed[MANAGED.index(ADMINISTRATOR)].id, user.id)
        key_id = add_key(transaction, user.id, secret).id
        make_lake(transaction.org_id)
    return Initialized(transaction.org_id, code, key_id, secret)


def initialize(settings: Settings, name: str) -> Initialized:
    """Create an organization with its lake and its drop folder, and the home if there is none.

    Raises:
        Invalid: The name is empty or too long.
        Required: The lake would be in a bucket without a catalog in PostgreSQL.
        Conflict: There is an organization of that name, or the home has another setting.
        Unavailable: The home cannot be written.
    """
    settings = agree_on_settings(settings)
    check_new_lake(settings)
    make_private(group_read=settings.group_read)
    home = settings.home.absolute()

    def make_lake(org_id: str) -> None:
        lake = open_lake(settings, org_id)
        try:
            lake.create()
        finally:
            lake.close()

    made = init_home(settings, name, make_lake)
    DropFolder(home / "drop" / made.org_code).create()
    agree_on_settings(settings)  # Now there is a home to write them into.
    return made
