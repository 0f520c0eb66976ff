"""`meterlake init`: a home and an organization; `meterlake keys`: what its tokens are signed with."""

from typing import Annotated

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_HOME_OPTIONS, HomeOptions


def register(app: App) -> None:
    """Add the command."""
    app.command(init)
    keys = App(name="keys", help="The keys that sign access tokens.")
    keys.command(rotate)
    app.command(keys)


def init(*, name: str, options: HomeOptions = NO_HOME_OPTIONS) -> None:
    """Create an organization with its lake, and the home around it if you have none yet.

    It gets a service user with the Administrator policy and an access key. You see the secret now
    and never again; meterlake stores only its hash.

    Example: `meterlake init --name "Halvorsen Cloud"`

    Args:
        name: The organization's name; its code follows from it.
    """
    from meterlake.pipeline.home.setup import initialize

    settings = options.settings()
    made = initialize(settings, name)
    secret = {
        "orgId": made.org_id,
        "accessKeyId": made.access_key_id,
        "apiSecret": made.api_secret,
    }
    if options.json:
        options.output.line(secret)
        return
    code = {"home": str(settings.home.absolute()), "organization": made.org_code}
    options.output.record(code | secret)
    options.output.note("Keep the secret: it is not stored and cannot be shown again.")


def rotate(
    *,
    withdraw: Annotated[bool, Parameter(negative="")] = False,
    options: HomeOptions = NO_HOME_OPTIONS,
) -> None:
    """Sign tokens with a new key from now on; tokens of the old one stay valid until they expire.

    Example: `meterlake keys rotate`

    Args:
        withdraw: Refuse the tokens of all older keys within half a minute: after a theft.
    """
    from meterlake.pipeline.access.tokens import rotate as work
    from meterlake.stores import open_stores

    with open_stores(options.settings()) as stores:
        kid = work(stores.state, stores.secrets, withdraw=withdraw)
    if options.json:
        options.output.line({"keyId": kid})
    else:
        options.output.record({"signing key": kid})
