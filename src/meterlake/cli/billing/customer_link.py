"""`meterlake customer-link`: links to the page of one customer, who needs no sign-in."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, Options

if TYPE_CHECKING:
    from meterlake.stores import Organization

AccountName = Annotated[str, Parameter(name="ACCOUNT", required=True)]
LinkName = Annotated[str, Parameter(name="LINK", required=True)]
Several = Parameter(negative="", show_default=False, consume_multiple=True)
_RESOURCE: Final = "customerlink"


def register(app: App) -> None:
    """Add the commands."""
    links = App(name="customer-link", help="Links to a customer's own page: make and revoke them.")
    links.command(create)
    links.command(list_, name="list")
    links.command(revoke)
    app.command(links)


def create(
    account: AccountName,
    /,
    *,
    name: str,
    days: int = 30,
    origin: Annotated[tuple[str, ...], Several] = (),
    url: str = "http://127.0.0.1:8000",
    options: Options = NO_OPTIONS,
) -> None:
    """Make a link to the page of one customer, and print it. You see it this once.

    Whoever has the link sees the customer's usage, spend, balances, approved bills and documents.

    Example: `meterlake customer-link create acme --name Portal --origin https://portal.acme.example`

    Args:
        account: The customer's code or id.
        name: Who the link is for, so that you know which one to revoke.
        days: How many days it works, 366 at most.
        origin: Pages of these origins may show it in a frame.
        url: Where people reach the server; METERLAKE_PUBLIC_URL if that is set.
    """
    from meterlake.model.customers.accounts import PAGE_PATH
    from meterlake.model.values.period import format_instant
    from meterlake.pipeline.access.customer_links import create_link

    with options.open() as organization:
        author = options.permitted(organization, ("config:create", _RESOURCE))
        document = {
            "name": name,
            "dtExpiry": format_instant(organization.now() + timedelta(days=days)),
            "allowedOrigins": list(origin),
        }
        account_id = _account_id(organization, account)
        made, token = create_link(organization, author, account_id, document)
        base = organization.settings.public_url or url.rstrip("/")
    options.output.record(
        {
            "id": made["id"],
            "name": made["name"],
            "until": made["dtExpiry"],
            "link": f"{base}{PAGE_PATH}/{token}",
        }
    )


def list_(account: AccountName, /, *, options: Options = NO_OPTIONS) -> None:
    """List the links of a customer: who they are for, how long they work, and who made them.

    Example: `meterlake customer-link list acme`

    Args:
        account: The customer's code or id.
    """
    from meterlake.pipeline.access.customer_links import list_links

    with options.open() as organization:
        found = list_links(organization, _account_id(organization, account))
    columns = ("!id", "name", "status", "dtExpiry=until", "?createdBy=by")
    options.output.rows(found, columns, empty="The customer has no links.")


def revoke(account: AccountName, link: LinkName, /, *, options: Options = NO_OPTIONS) -> None:
    """Revoke a link of a customer: it never works again.

    Example: `meterlake customer-link revoke acme Portal`

    Args:
        account: The customer's code or id.
        link: The link's id, or its name if only one that works has it.
    """
    from meterlake.pipeline.access.customer_links import link_named, revoke_link

    with options.open() as organization:
        account_id = _account_id(organization, account)
        id_ = link_named(organization, account_id, link)
        author = options.permitted(organization, ("config:update", _RESOURCE), (id_,))
        done = revoke_link(organization, author, account_id, id_)
    options.output.record({"id": id_, "name": done["name"], "revoked": done["revoked"]})


def _account_id(organization: "Organization", name: str) -> str:
    from meterlake.model.customers.accounts import Account
    from meterlake.pipeline.config.entities import id_of

    with organization.reading() as reader:
        return id_of(reader, Account, name)
