"""`meterlake export destinations`: buckets and folders that exports go to."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.export.options import Text, given_options
from meterlake.cli.shell.options import NO_OPTIONS, Options

Code = Annotated[str, Parameter(name="CODE", required=True)]
Kind = Literal["s3", "gcs", "local"]
Order = Literal["time-first", "type-first"]
_PERMISSION: Final = "exportdestination"
LISTED: Final = (
    *("!code", "destinationType=type", "bucketName=bucket", "prefix"),
    *("?partitionOrder=order", "?name"),
)


@Parameter(name="*")
@dataclass(frozen=True)
class DestinationOptions:
    """Where objects go, and by whose permission.

    Attributes:
        bucket: The name of the bucket; of a local one, of a folder in the folder of exports.
        prefix: The beginning of the keys of all objects.
        order: The first part of a key: the time, or the type of data.
        role_arn: S3: the role that meterlake assumes.
        project_number: GCS: the number of the project with the pool.
        pool: GCS: the id of the workload identity pool.
        provider: GCS: the id of the pool's provider.
        service_account: GCS: the e-mail address of the account that meterlake acts as.
        name: A name for people; if you leave it out, the code.
    """

    bucket: Text = None
    prefix: Text = None
    order: Annotated[Order | None, Parameter(show_default=False)] = None
    role_arn: Text = None
    project_number: Text = None
    pool: Text = None
    provider: Text = None
    service_account: Text = None
    name: Text = None

    def request_body(self) -> dict[str, Any]:
        """What was given, as the API takes it."""
        return given_options(
            {
                "name": self.name,
                "bucketName": self.bucket,
                "prefix": self.prefix,
                "partitionOrder": self.order and self.order.upper().replace("-", "_"),
                "iamRoleArn": self.role_arn,
                "projectNumber": self.project_number,
                "poolId": self.pool,
                "providerId": self.provider,
                "serviceAccountEmail": self.service_account,
            }
        )


@Parameter(name="*")
@dataclass(frozen=True)
class NewDestinationOptions(DestinationOptions):
    """The same of a new one."""

    bucket: Annotated[str, Parameter(required=True)] = field()
    order: Order = "time-first"

    def document(self, kind: Kind, code: str) -> dict[str, Any]:
        """As the API takes it."""
        known = {"destinationType": kind.upper(), "code": code, "name": self.name or code}
        return {**self.request_body(), **known}


AS_IT_IS: Final = DestinationOptions()


def register(app: App) -> None:
    """Add the commands."""
    destinations = App(name="destinations", help="Buckets and folders that exports go to.")
    destinations.command(list_, name="list")
    for command in (create, update, check, delete):
        destinations.command(command)
    app.command(destinations)


def list_(*, options: Options = NO_OPTIONS) -> None:
    """Show the destinations.

    Example: `meterlake export destinations list`
    """
    from meterlake.pipeline.export.control import list_destinations

    with options.open() as organization:
        found = list_destinations(organization)
    options.output.rows(found, LISTED, empty="No destinations.")


def create(
    kind: Kind,
    code: Code,
    /,
    *,
    destination_options: NewDestinationOptions,
    options: Options = NO_OPTIONS,
) -> None:
    """Make a destination; with `check` you test it.

    Example: `meterlake export destinations create s3 lake --bucket exports --role-arn
    arn:aws:iam::123456789012:role/exports`

    Args:
        kind: `local` is a folder below METERLAKE_EXPORT_FOLDER.
        code: Its code.
    """
    from meterlake.cli.export.changes import create_destination

    with options.open() as organization:
        author = options.permitted(organization, ("config:create", _PERMISSION))
        document = destination_options.document(kind, code)
        made = create_destination(organization, author, document)
    options.output.record(made)


def update(
    destination: Code,
    /,
    *,
    destination_options: DestinationOptions = AS_IT_IS,
    code: Text = None,
    options: Options = NO_OPTIONS,
) -> None:
    """Change the options of a destination that you give, and nothing else. Its type stays.

    An empty text empties an optional field, such as `--prefix ""`. Existing jobs go to the new
    bucket in the new role, below the old prefix.

    Example: `meterlake export destinations update lake --prefix usage/raw`

    Args:
        destination: Its code or id.
        code: Its new code.
    """
    from meterlake.cli.export.changes import update_destination

    body = {**destination_options.request_body(), **given_options({"code": code})}
    with options.open() as organization:
        author = options.permitted(organization, ("config:update", _PERMISSION))
        updated = update_destination(organization, author, destination, body)
    options.output.record(updated)


def check(code: Code, /, *, options: Options = NO_OPTIONS) -> int:
    """Write a small object to a destination, and show the reason if that fails.

    Example: `meterlake export destinations check lake`

    Args:
        code: Its code or id.
    """
    from meterlake.pipeline.export.control import destination_named
    from meterlake.pipeline.export.destinations import check_destination

    with options.open() as organization:
        id_ = destination_named(organization, code)
        found = check_destination(organization, id_)
    if options.json:
        options.output.line(found)
    else:
        options.output.rows(found["steps"], ("name=step", "succeeded", "reason"))
    return 0 if found["writable"] else 1


def delete(code: Code, /, *, options: Options = NO_OPTIONS) -> None:
    """Delete a destination that no schedule uses; the files there stay.

    Example: `meterlake export destinations delete lake`

    Args:
        code: Its code or id.
    """
    from meterlake.pipeline.export.control import delete_destination

    with options.open() as organization:
        author = options.permitted(organization, ("config:delete", _PERMISSION))
        gone = delete_destination(organization, author, code)
    options.output.record(gone)
