"""Files that others put down: `meterlake inbox` for prefixes of buckets, `meterlake uploads` for clients."""

from typing import Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.ingest.command import emit_receipts, report
from meterlake.cli.shell.options import NO_OPTIONS, UPLOAD, Options
from meterlake.cli.shell.signals import TERMINATED, between_two
from meterlake.model.errors import MeterlakeError, Unavailable

Url = Annotated[str, Parameter(name="URL", required=True)]
_CLAIMS: Final = 20
_SHOWN: Final = (
    *("key=object", "status", "accepted", "rejected", "error", "?received", "?attempt"),
)


def register(app: App) -> None:
    """Add the commands."""
    inbox = App(name="inbox", help="Bucket inboxes: ingest the objects that arrive below a prefix.")
    for command in (add, check, remove, show, poll):
        inbox.command(command, name="list" if command is show else None)
    app.command(inbox)
    uploads = App(name="uploads", help="Files that clients sent to an upload URL.")
    uploads.command(ingest)
    app.command(uploads)


def add(
    url: Url,
    *,
    afterwards: Literal["move", "tag", "leave"] = "move",
    options: Options = NO_OPTIONS,
) -> None:
    """Ingest, from now on, the objects below a prefix of a bucket, or the files of a folder.

    You find moved objects in done/ or failed/ beside the prefix, each with its report. If you name
    an existing inbox, you change what it does with its objects.

    Example: `meterlake inbox add s3://bucket/usage/inbox`

    Args:
        url: s3://bucket/prefix, gs://bucket/prefix, or a folder.
        afterwards: What the poller does with an object after its ingest.
    """
    from meterlake.pipeline.ingest.inbox import add_inbox
    from meterlake.stores.state.ingest.inboxes import Afterwards

    with options.open() as organization:
        author = options.permitted(organization, UPLOAD)
        inbox = add_inbox(organization, url, Afterwards(afterwards), author)
    shown = {"url": inbox.url, "afterwards": inbox.afterwards.value, "author": inbox.author}
    options.output.record(shown)


def check(url: Url, *, options: Options = NO_OPTIONS) -> int:
    """Look whether an inbox answers, and what waits in it, before you add it or afterwards.

    The command takes nothing, and ends with 1 if the inbox does not answer.

    Example: `meterlake inbox check s3://bucket/usage/inbox`

    Args:
        url: s3://bucket/prefix, gs://bucket/prefix, or a folder.
    """
    from meterlake.pipeline.ingest.named_inboxes import check_inbox

    with options.open() as organization:
        found = check_inbox(organization, url)
    options.output.record(found)
    return int(not found["answers"])


def remove(url: Url, *, options: Options = NO_OPTIONS) -> None:
    """Do not look into an inbox any more; its objects stay where they are.

    Example: `meterlake inbox remove s3://bucket/usage/inbox`

    Args:
        url: Its URL, as `list` shows it.
    """
    from meterlake.pipeline.ingest.inbox import remove_inbox

    with options.open() as organization:
        options.permitted(organization, UPLOAD)
        remove_inbox(organization, url)


def show(*, options: Options = NO_OPTIONS) -> None:
    """Show the inboxes, and the last objects that pollers took from each.

    Example: `meterlake inbox list`
    """
    from meterlake.pipeline.access.named_people import names_of_authors
    from meterlake.pipeline.ingest.listed_inboxes import list_inboxes

    with options.open() as organization:
        found = [each.to_wire() for each in list_inboxes(organization, _CLAIMS)]
        authors = [each["author"] for each in found if each["author"]]
        names = {} if options.json else names_of_authors(organization, authors)
    for each in found:
        author = names.get(each["author"], each["author"])
        if options.json:
            options.output.line(each | {"author": author})
        else:
            added = f", by {author}" if author else ""
            options.output.note(f"{each['url']} ({each['afterwards']}{added})")
            options.output.rows(each["objects"], _SHOWN)
    if not found:
        options.output.note("There is no inbox; `meterlake inbox add URL` makes one.")


def poll(*, options: Options = NO_OPTIONS) -> int:
    """Ingest the objects that lie in all inboxes now.

    `meterlake serve` does so all the time. If you run several pollers, they share the work: one of
    them takes an object.

    Example: `meterlake inbox poll`
    """
    from meterlake.pipeline.ingest.inbox import poll_inboxes

    found: list[dict[str, Any]] = []
    try:
        with (
            options.open() as organization,
            options.output.progress() as progress,
            between_two() as stop,
        ):
            receipts = poll_inboxes(organization, stop, progress)
            found.extend(emit_receipts(receipts, options))
    except Unavailable:
        # One inbox failed; what came in from the others is told all the same.
        if found:
            report(found, options)
        raise
    code = report(found, options)
    return TERMINATED if stop() else code


def ingest(*, options: Options = NO_OPTIONS) -> int:
    """Ingest the uploaded files that wait now, also those of lookup tables.

    `meterlake serve` does so all the time. If you run several processes, they share the work: one
    of them takes a file. The command reports an unreadable file after all the others.

    Example: `meterlake uploads ingest`
    """
    from meterlake.pipeline.ingest.uploads import ingest_uploads

    found: list[dict[str, Any]] = []
    try:
        with options.open() as organization, between_two() as stop:
            found.extend(emit_receipts(ingest_uploads(organization, stop), options))
    except MeterlakeError:
        # One file failed; what came in from the others is told all the same.
        if found:
            report(found, options)
        raise
    code = report(found, options)
    return TERMINATED if stop() else code
