"""`meterlake init`: a home and an organization."""

from cyclopts import App

from meterlake.cli.options import NO_HOME_OPTIONS, HomeOptions


def register(app: App) -> None:
    """Add the command."""
    app.command(init)


def init(*, name: str, options: HomeOptions = NO_HOME_OPTIONS) -> None:
    """Create an organization with its lake, and the home around it if there is none yet.

    It gets a service user with the Administrator policy and an access key. The secret is shown
    now and never again; only its hash is stored.

    Example: `meterlake init --name "Halvorsen Cloud"`

    Args:
        name: The organization's name; its code follows from it.
    """
    from meterlake.pipeline.initialize import initialize

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
