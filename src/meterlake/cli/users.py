"""`meterlake users`: people who sign in to the console."""

from typing import Annotated

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, Options


def register(app: App) -> None:
    """Add the commands."""
    users = App(name="users", help="Users: invite people who sign in to the console.")
    users.command(invite)
    app.command(users)


def invite(
    email: Annotated[str, Parameter(name="EMAIL", required=True)],
    /,
    *,
    first_name: str,
    last_name: str,
    policy: str = "Administrator",
    url: str = "http://127.0.0.1:8000",
    options: Options = NO_OPTIONS,
) -> None:
    """Invite a person, and print the link with which the person chooses a password.

    The link works once. Whoever has it can become this person: hand it over in a way that you trust.

    Example: `meterlake users invite ada@acme.example --first-name Ada --last-name Lovelace`

    Args:
        email: The e-mail address with which the person signs in.
        first_name: The first name.
        last_name: The last name.
        policy: What the person may do: the name or the id of a permission policy.
        url: Where people reach the server; METERLAKE_PUBLIC_URL if that is set.
    """
    from meterlake.model.configuration.access import Invitation, PermissionPolicy
    from meterlake.model.errors import Invalid
    from meterlake.pipeline.access.invitation_email import PATH
    from meterlake.pipeline.access.users import invite as invite_person

    with options.open() as organization:
        with organization.reading() as reader:
            policies = {each.entity.name: each.id for each in reader.all(PermissionPolicy)}
        id_ = policy if policy in policies.values() else policies.get(policy)
        if id_ is None:
            rule = f"it must be one of the policies {', '.join(sorted(policies))}, or the id of one"
            raise Invalid("--policy", policy, rule)
        document = {
            "email": email,
            "firstName": first_name,
            "lastName": last_name,
            "permissionPolicyIds": [id_],
        }
        author = options.author(organization)
        shown, letter = invite_person(
            organization.state, organization.id, author, Invitation.from_wire(document)
        )
        base = organization.settings.public_url or url.rstrip("/")
    options.output.record(
        {
            "email": shown["email"],
            "policy": policy,
            "until": shown["dtExpiry"],
            "link": f"{base}{PATH}?token={letter.token}",
        }
    )
