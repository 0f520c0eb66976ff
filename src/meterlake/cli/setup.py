"""`meterlake init`, `keys` and `settings`: a home, its organizations, its keys, and what its processes share."""

from typing import Annotated

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_HOME_OPTIONS, HomeOptions

Name = Annotated[str, Parameter(name="NAME", required=True)]


def register(app: App) -> None:
    """Add the commands."""
    app.command(init)
    keys = App(name="keys", help="The keys that sign access tokens.")
    keys.command(rotate)
    app.command(keys)
    settings = App(name="settings", help="The settings that all processes of a home share.")
    settings.command(show, name="list")
    settings.command(change, name="set")
    settings.command(unset)
    app.command(settings)


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


def show(*, options: HomeOptions = NO_HOME_OPTIONS) -> None:
    """List the settings of the home; a process with another value does not start.

    Example: `meterlake settings list`
    """
    from meterlake.settings import variable
    from meterlake.stores.home_settings import shared_settings

    found = shared_settings(options.settings())
    rows = [
        {"setting": name, "value": value, "variable": variable(name)}
        for name, value in sorted(found.items())
    ]
    options.output.rows(
        rows, ("!setting", "value", "?variable"), empty="The home holds no settings."
    )


def change(
    name: Name,
    value: Annotated[str, Parameter(name="VALUE", required=True, allow_leading_hyphen=True)],
    *,
    options: HomeOptions = NO_HOME_OPTIONS,
) -> None:
    """Change a setting of the home, for processes that you start from now on.

    Stop the running ones first: they keep the old value until they end.

    Example: `meterlake settings set snapshot_days 90`

    Args:
        name: The setting: its variable without METERLAKE_, in lower case.
        value: Its value; of a list the JSON.
    """
    from meterlake.settings import variable
    from meterlake.stores.home_settings import change as work

    if work(options.settings(), name, value):
        options.output.note(
            "The password is not written into the home: every process needs"
            f" {variable(name)} with the whole URL, or a password file of libpq"
            " and a URL without one."
        )
    if name in {"lake", "catalog"}:
        options.output.note(
            "Lakes that are there stay where they are; `meterlake move-lake` moves them."
        )


def unset(name: Name, *, options: HomeOptions = NO_HOME_OPTIONS) -> None:
    """Forget a setting of the home: the next process with a value of its own writes it down.

    Example: `meterlake settings unset export_folder`

    Args:
        name: The setting: its variable without METERLAKE_, in lower case.
    """
    from meterlake.stores.home_settings import change as work

    work(options.settings(), name, None)
