"""`meterlake users`: people who sign in to the console."""

from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, Limit, Options

if TYPE_CHECKING:
    from meterlake.stores import Organization

_PAGE: Final = 200
_ASSUMED: Final = "http://127.0.0.1:8000"


def register(app: App) -> None:
    """Add the commands."""
    users = App(name="users", help="Users: people who sign in to the console, and what they did.")
    users.command(invite)
    users.command(grant)
    users.command(list_users, name="list")
    users.command(sign_out)
    users.command(make_password_link, name="password-link")
    users.command(show_log, name="log")
    app.command(users)


def invite(
    email: Annotated[str, Parameter(name="EMAIL", required=True)],
    /,
    *,
    first_name: str,
    last_name: str,
    policy: str = "Administrator",
    url: str | None = None,
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
        url: Where people reach the server. Without it, METERLAKE_PUBLIC_URL, or else http://127.0.0.1:8000, and you
            are told that this is assumed.
    """
    from meterlake.model.configuration.access import Invitation
    from meterlake.pipeline.access.invitation_email import PATH
    from meterlake.pipeline.access.users import invite as invite_person

    with options.open() as organization:
        id_ = _policy_id(organization, "--policy", policy)
        document = {
            "email": email,
            "firstName": first_name,
            "lastName": last_name,
            "permissionPolicyIds": [id_],
        }
        author = options.permitted(organization, ("config:create", "invitation"))
        shown, letter = invite_person(
            organization.state, organization.id, author, Invitation.from_wire(document)
        )
        base = _base(organization, url, options)
    options.output.record(
        {
            "email": shown["email"],
            "policy": policy,
            "until": shown["dtExpiry"],
            "link": f"{base}{PATH}?token={letter.token}",
        }
    )


def _base(organization: "Organization", url: str | None, options: Options) -> str:
    """Where people reach the server; a note says if that is assumed."""
    known = url or organization.settings.public_url
    if not known:
        options.output.note(
            f"The link assumes that people reach the server at {_ASSUMED}."
            " Give --url or set METERLAKE_PUBLIC_URL if they do not."
        )
    return (known or _ASSUMED).rstrip("/")


def make_password_link(
    email: Annotated[str, Parameter(name="EMAIL", required=True)],
    /,
    *,
    url: str | None = None,
    options: Options = NO_OPTIONS,
) -> None:
    """Print a link with which a user chooses a new password, for a day; those before it work no more.

    The link works once, and ends all sign-ins of the person. Whoever has it can become this person, in all
    organizations of the home: hand it over in a way that you trust.

    Example: `meterlake users password-link ada@acme.example`

    Args:
        email: The person's e-mail address, id, or first and last name.
        url: Where people reach the server. Without it, METERLAKE_PUBLIC_URL, or else http://127.0.0.1:8000, and you
            are told that this is assumed.
    """
    from meterlake.model.errors import Forbidden
    from meterlake.pipeline.access.invitation_email import PATH
    from meterlake.pipeline.access.named_people import user_named
    from meterlake.pipeline.access.users import NEW_PASSWORD, may_see_link, renew_password

    with options.open() as organization:
        state, id_ = organization.state, user_named(organization, email)
        author = options.permitted(organization, ("config:update", "user"), [id_])
        # Whoever runs the home without a name may do all in it.
        is_named = author.startswith(("USER_", "SERVICE_USER_"))
        if is_named and not may_see_link(state, organization.id, author, id_):
            raise Forbidden(
                f"the link of {email} leads further than you may go yourself;"
                " have who runs the server make it, without --as"
            )
        letter = renew_password(state, organization.id, author, id_)
        until = organization.now() + NEW_PASSWORD
        base = _base(organization, url, options)
    link = f"{base}{PATH}?token={letter.token}"
    options.output.record({"email": letter.email, "until": until, "link": link})


def grant(
    email: Annotated[str, Parameter(name="EMAIL", required=True)],
    policy: Annotated[str, Parameter(name="POLICY")] = "Administrator",
    /,
    *,
    restore_access: bool = False,
    options: Options = NO_OPTIONS,
) -> None:
    """Give a user of the organization a policy. It counts within seconds.

    It helps where nobody may do so in the console any more.

    Example: `meterlake users grant ada@acme.example Administrator`

    Args:
        email: The person's e-mail address, id, or first and last name.
        policy: What the person may do: the name or the id of a permission policy.
        restore_access: Whether an access that has ended is given back.
    """
    from meterlake.model.configuration.access import PrincipalType
    from meterlake.pipeline.access.access import grant_policy
    from meterlake.pipeline.access.named_people import user_named
    from meterlake.pipeline.access.users import restore_access as restore

    with options.open() as organization:
        policy_id = _policy_id(organization, "POLICY", policy)
        id_ = user_named(organization, email)
        author = options.permitted(organization, ("config:update", "permissionpolicy"), [policy_id])
        if restore_access:
            options.permitted(organization, ("config:update", "user"), [id_])
            restore(organization.state, organization.id, author, id_)
        principal = (PrincipalType.USER, id_)
        grant_policy(organization.state, organization.id, author, policy_id, principal)
    options.output.record({"email": email, "policy": policy})


def _policy_id(organization: "Organization", option: str, policy: str) -> str:
    from meterlake.model.configuration.access import PermissionPolicy
    from meterlake.model.errors import Invalid

    with organization.reading() as reader:
        policies = {each.entity.name: each.id for each in reader.all(PermissionPolicy)}
    id_ = policy if policy in policies.values() else policies.get(policy)
    if id_ is None:
        rule = f"it must be one of the policies {', '.join(sorted(policies))}, or the id of one"
        raise Invalid(option, policy, rule)
    return id_


def list_users(*, options: Options = NO_OPTIONS) -> None:
    """List the users of the organization, and the policies that each has.

    Example: `meterlake users list`
    """
    from meterlake.pipeline.access.users import list_users as find_users
    from meterlake.pipeline.access.users import user_permissions
    from meterlake.stores.state.core.pages import Page

    found = []
    with options.open() as organization:
        state, id_, token = organization.state, organization.id, None
        while True:
            answer = find_users(state, id_, Page(_PAGE, token), ())
            for each in answer["data"]:
                held = user_permissions(state, id_, each["id"])
                policies = [record.entity.name for record in held]
                names = " ".join(filter(None, (each.get("firstName"), each.get("lastName"))))
                found.append({**each, "name": names, "policies": sorted(policies)})
            token = answer.get("nextToken")
            if token is None:
                break
    if options.json:
        for each in found:
            options.output.line(each)
    else:
        columns = ("!email", "name", "policies", "?dtEndAccess=access ends", "+!id")
        options.output.rows(found, columns, empty="No users.")


def sign_out(
    email: Annotated[str, Parameter(name="EMAIL", required=True)],
    /,
    *,
    options: Options = NO_OPTIONS,
) -> None:
    """Sign a person out of the organization, in all browsers; the person may sign in again.

    Example: `meterlake users sign-out ada@acme.example`

    Args:
        email: The person's e-mail address, id, or first and last name.
    """
    from meterlake.pipeline.access.audit import end_sessions
    from meterlake.pipeline.access.named_people import author_named

    with options.open() as organization:
        _, _, id_ = author_named(organization, email).rpartition("_")
        options.permitted(organization, ("config:update", "user"), [id_])
        options.output.record({"email": email, **end_sessions(organization, id_)})


def show_log(
    *,
    by: Annotated[str | None, Parameter(show_default=False)] = None,
    kind: str | None = None,
    limit: Limit = 20,
    options: Options = NO_OPTIONS,
) -> None:
    """Show who did what, the newest first: to entities, bills, balances, months; grants, begun runs.

    Example: `meterlake users log --by ada@acme.example`

    Args:
        by: Only what this person or service user did: e-mail address, name or id.
        kind: Only what was done to this kind: accounts, bills, closings, passwordLinks, policyGrants, runs.
        limit: The largest number that you want to see.
    """
    from meterlake.model.errors import Invalid
    from meterlake.pipeline.access.audit import KINDS, audit_log
    from meterlake.pipeline.access.named_people import author_named, with_names
    from meterlake.stores.state.access.audit_log import AuditFilter
    from meterlake.stores.state.core.pages import Page

    if kind is not None and kind not in KINDS:
        raise Invalid("--kind", kind, f"it must be one of {', '.join(sorted(KINDS))}")
    with options.open() as organization:
        authors = [] if by is None else [author_named(organization, by)]
        wanted = AuditFilter(authors=authors, kinds=[] if kind is None else [KINDS[kind]])
        found = audit_log(organization, wanted, Page(limit))["data"]
        named = with_names(organization, found, "by")
    if options.json:
        for each in named:
            options.output.line(each)
    else:
        options.output.rows(
            named,
            (
                *("at=time", "!by", "action", "kind", "name", "?period", "?amount", "?currency"),
                *("?reason", "+!entityId"),
            ),
            empty="Nothing yet.",
        )
