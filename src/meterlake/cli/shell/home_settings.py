"""`meterlake settings`: the settings that all processes of a home share."""

from typing import Annotated

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_HOME_OPTIONS, HomeOptions

Name = Annotated[str, Parameter(name="NAME", required=True)]


def register(app: App) -> None:
    """Add the commands."""
    settings = App(name="settings", help="The settings that all processes of a home share.")
    settings.command(show, name="list")
    settings.command(change, name="set")
    settings.command(unset)
    app.command(settings)


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
