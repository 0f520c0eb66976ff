"""`meterlake list`, `show`, `create`, `edit`, `delete`: every declared resource by its natural name."""

import csv
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, Limit, Options
from meterlake.cli.shell.output import confirm, require_somebody
from meterlake.model.errors import Invalid, MeterlakeError, Required, StillReferenced

if TYPE_CHECKING:
    from meterlake.cli.shell.output import Output
    from meterlake.model.resources import Resource
    from meterlake.pipeline.config.apply_configuration import FieldDifference
    from meterlake.pipeline.config.entities import Document
    from meterlake.stores import Organization

ResourceName = Annotated[str, Parameter(name="RESOURCE", required=True)]
Names = Annotated[str, Parameter(name="NAME")]
Fields = Annotated[str, Parameter(negative="")]
Switch = Annotated[bool, Parameter(negative="")]
_PAGE: Final = 100
_ID_DIGITS: Final = 8
# The fields of lists that people look for; of other kinds, the first ones.
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "accounts": ("emailAddress=e-mail", "parentAccountId=parent", "?currency"),
    "meters": ("productId=product", "?groupId=group"),
    "aggregations": (
        *("meterId=meter", "aggregation=method", "targetField=field", "?unit"),
        "?rounding",
    ),
    "compoundAggregations": ("calculation", "?unit"),
    "planTemplates": (
        *("productId=product", "currency", "billFrequency=frequency", "?standingCharge=standing"),
    ),
    "plans": ("planTemplateId=template", "accountId=account", "?standingCharge=standing"),
    "pricings": (
        *("planId=plan", "planTemplateId=template", "aggregationId=aggregation"),
        *("compoundAggregationId=compound", "startDate=start", "?endDate=end", "?segment"),
    ),
    "accountPlans": (
        *("accountId=account", "planId=plan", "planGroupId=group", "startDate=start"),
        *("endDate=end", "?contractId=contract"),
    ),
    "balances": ("accountId=account", "currency", "startDate=start", "endDate=end"),
    "commitments": ("accountId=account", "amount", "currency", "startDate=start", "endDate=end"),
    "contracts": ("accountId=account", "startDate=start", "endDate=end"),
    "charges": ("accountId=account", "amount", "currency", "?billDate=bill date"),
}
_OTHER_COLUMNS: Final = 4


def register(app: App) -> None:
    """Add the commands."""
    app.command(list_, name="list")
    for command in (show, create, edit, delete):
        app.command(command)


def list_(
    resource: Annotated[str | None, Parameter(name="RESOURCE", show_default=False)] = None,
    /,
    *,
    search: Annotated[str | None, Parameter(show_default=False)] = None,
    limit: Limit = _PAGE,
    csv: Switch = False,
    options: Options = NO_OPTIONS,
    **filters: Fields,
) -> None:
    """List what the organization has of a resource, the newest first; or the resources.

    You filter by the filters of the API's list and by fields, with a reference by its code:
    `--account acme`, `--plan-template storage`, `--currency EUR`.

    Example: `meterlake list accounts --search pharma`

    Args:
        resource: Such as accounts, plan-templates or pricings; without it, you see all of them.
        search: A text that the name, the code, the e-mail address or the purchase order has in it.
        limit: The largest number that you want to see.
        csv: Print all fields as CSV, with references by code.
        filters: A filter of the resource, or one of its fields, and the value.
    """
    from meterlake.pipeline.config.named_resources import (
        describe_documents,
        list_named,
        resource_called,
    )

    if resource is None:
        _list_resources(options.output)
        return
    kind = resource_called(resource)
    with options.open() as organization:
        if kind.singleton:
            raise Invalid("RESOURCE", resource, "the organization has one of them: use `show`")
        found = list_named(organization, kind, filters, limit, search)
        described = describe_documents(organization, kind, found)
    if csv:
        _print_csv(kind, described)
    elif options.json:
        options.output.rows(found, ())
    else:
        rows = [{**each, "key": each.get("code") or each["id"][:_ID_DIGITS]} for each in described]
        empty = f"No {_words(kind)}: `meterlake create {_word(kind)}` makes one."
        options.output.rows(rows, _columns(kind, described), empty=empty)
        if len(found) == limit:
            options.output.note(f"The first {limit:,} are listed; --limit gives more.")


def show(
    resource: ResourceName,
    /,
    *name: Names,
    history: Switch = False,
    options: Options = NO_OPTIONS,
) -> None:
    """Show one thing of a resource: its fields, what refers to it, and who changed it last.

    You name it by its code, its name, its id or the first eight digits of it. What an account has
    you may name by the account and its code: `show commitment acme`, `show balance acme prepaid`.

    Example: `meterlake show plan storage-pro`

    Args:
        resource: Such as account, plan-template or pricing.
        name: Its code, name or id; nothing for what the organization has once.
        history: Show who changed which field when, too.
    """
    from meterlake.pipeline.config.named_changes import editable
    from meterlake.pipeline.config.named_resources import find_ref, resource_called
    from meterlake.pipeline.config.relations import history as history_of
    from meterlake.pipeline.config.relations import relations

    kind = resource_called(resource)
    with options.open() as organization:
        ref = find_ref(organization, kind, _words_given(kind, name))
        found, described = editable(organization, ref)
        if options.json:
            options.output.line(found)
            return
        _show_entity(organization, found, described, options.output)
        if not kind.singleton:
            _show_referring(relations(organization, kind, found["id"]), options.output)
        if history:
            changes = history_of(organization, kind, found["id"])["data"]
            _show_history(organization, changes, options.output)


@Parameter(name="*")
@dataclass(frozen=True)
class Written:
    """The fields of a resource.

    Attributes:
        set: A field and its value, `field=value`; you can give several. Dots lead into nested
            fields and lists (`pricingBands.0.unitPrice=2`), a value that begins with `{` or `[` is
            JSON, and `null` empties the field.
        file: A JSON or YAML file with the fields; `-` reads the standard input.
        dry_run: Show what would change, and change nothing.
    """

    set: Annotated[
        tuple[str, ...], Parameter(negative="", show_default=False, consume_multiple=True)
    ] = ()
    file: Annotated[str | None, Parameter(show_default=False, allow_leading_hyphen=True)] = None
    dry_run: Annotated[bool, Parameter(negative="")] = False


_NOTHING: Final = Written()


def create(
    resource: ResourceName,
    /,
    *,
    written: Written = _NOTHING,
    options: Options = NO_OPTIONS,
    **fields: Fields,
) -> None:
    """Create one thing of a resource from its fields, by the rules of the API.

    You give each field as an option of its name or with `--set`, and a reference by code, without
    its Id. Days begin in the organization's time zone.

    Example: `meterlake create plan --code storage-pro --name "Storage Pro" --plan-template storage`

    Example: `meterlake create pricing --file pricing.yaml --dry-run`

    Args:
        resource: Such as account, plan-template or pricing.
        fields: A field of the resource, and its value.
    """
    from meterlake.pipeline.config.named_changes import (
        create_named,
        refuse_other_commands,
        with_fields,
    )
    from meterlake.pipeline.config.named_resources import resource_called

    kind = resource_called(resource)
    refuse_other_commands(kind, "create")
    given = _given_fields(written, fields)
    if not given and written.file is None:
        raise Required("--set or --file", None, "give the fields of what you create")
    document = with_fields(kind, _read_file(written.file), given)
    with options.open() as organization:
        author = options.permitted(organization, ("config:create", kind.permission))
        changed = organization.rehearsed() if written.dry_run else organization
        made = create_named(changed, author, kind, document)
    _show_change("created", kind, made.document, made.differences, options, written.dry_run)


def edit(
    resource: ResourceName,
    /,
    *name: Names,
    written: Written = _NOTHING,
    options: Options = NO_OPTIONS,
    **fields: Fields,
) -> None:
    """Change fields of one thing of a resource, by the rules of the API.

    You give each field that changes as an option of its name or with `--set`, and a reference by
    code. With `--file` the file replaces all fields. Without any of them your editor opens the
    thing as YAML (VISUAL or EDITOR).

    Example: `meterlake edit account acme --set emailAddress=billing@acme.example --dry-run`

    Args:
        resource: Such as account, plan-template or pricing.
        name: Its code, name or id, as `show` takes it.
        fields: A field of the resource, and its new value.
    """
    from meterlake.pipeline.config.named_changes import (
        editable,
        refuse_other_commands,
        update_named,
        with_fields,
    )
    from meterlake.pipeline.config.named_resources import find_ref, resource_called

    kind = resource_called(resource)
    refuse_other_commands(kind, "update")
    given = _given_fields(written, fields)
    with options.open() as organization:
        ref = find_ref(organization, kind, _words_given(kind, name))
        before, described = editable(organization, ref)
        to = ("config:update", kind.permission)
        author = options.permitted(organization, to, [before["id"]])
        document = before if written.file is None else _read_file(written.file)
        if given:
            document = with_fields(kind, document, given)
        kept: Path | None = None
        if not given and written.file is None:
            document, kept = _edited(described, _title(kind, described, before), options.output)
            if document == described:
                kept.unlink()
                options.output.note("Nothing was changed.")
                return
        try:
            made = update_named(organization.rehearsed(), author, ref, before, document)
            if made.differences and not written.dry_run:
                made = update_named(organization, author, ref, before, document)
        except MeterlakeError:
            if kept is not None:
                options.output.note(f"Your text is kept: {kept}")
            raise
        if kept is not None:
            kept.unlink()
    _show_change("changed", kind, made.document, made.differences, options, written.dry_run)


def delete(
    resource: ResourceName,
    /,
    *name: Names,
    dry_run: Switch = False,
    yes: Switch = False,
    options: Options = NO_OPTIONS,
) -> int:
    """Delete one thing of a resource; what something refers to is not deleted.

    The command shows the thing and asks you first. Its history stays.

    Example: `meterlake delete plan storage-pro --dry-run`

    Args:
        resource: Such as account, plan-template or pricing.
        name: Its code, name or id, as `show` takes it.
        dry_run: Show what would happen, and change nothing.
        yes: Delete without asking, in scripts.
    """
    from meterlake.pipeline.config.named_changes import (
        delete_named,
        editable,
        refuse_other_commands,
    )
    from meterlake.pipeline.config.named_resources import find_ref, resource_called

    kind = resource_called(resource)
    refuse_other_commands(kind, "delete")
    with options.open() as organization:
        ref = find_ref(organization, kind, _words_given(kind, name))
        before, described = editable(organization, ref)
        to = ("config:delete", kind.permission)
        author = options.permitted(organization, to, [before["id"]])
        if not (dry_run or yes):
            rule = "nobody can be asked here; add it, or look with --dry-run"
            require_somebody(options.output, Required("--yes", None, rule))
        title = _title(kind, described, before)
        # What is refused is told before anybody is asked.
        try:
            gone = delete_named(organization.rehearsed(), author, ref)
        except StillReferenced as error:
            raise StillReferenced(_word(kind), title.rpartition(" ")[2], error.args[2]) from None
        if not (dry_run or yes):
            _show_entity(organization, before, described, options.output)
            if not confirm(f"Delete {title}?", options.output):
                return 1
        if not dry_run:
            gone = delete_named(organization, author, ref)
    if options.json:
        options.output.line(gone)
    told = (
        f"Would delete {title} (dry run: nothing was written)." if dry_run else f"Deleted {title}."
    )
    options.output.note(told)
    return 0


def _list_resources(output: "Output") -> None:
    from meterlake.pipeline.config.named_resources import named_kinds, words_of_resource

    rows = [
        {
            "resource": words_of_resource(each),
            "what": (each.entity.__doc__ or "").partition("\n")[0],
        }
        for each in named_kinds()
    ]
    output.rows(rows, ("!resource", "what=what it is"))


def _words(kind: "Resource") -> str:
    from meterlake.pipeline.config.named_resources import words_of_resource

    return words_of_resource(kind)


def _word(kind: "Resource") -> str:
    from meterlake.pipeline.config.named_resources import words_of_one

    return words_of_one(kind)


def _words_given(kind: "Resource", name: Sequence[str]) -> Sequence[str]:
    """The name of one thing, which only what there is once does without.

    Raises:
        Required: There is none.
    """
    if not name and not kind.singleton:
        raise Required("NAME", None, f"`meterlake list {_words(kind)}` shows the names")
    return name


def _title(kind: "Resource", described: "Document", document: "Document") -> str:
    """What messages call one thing."""
    name = described.get("code") or described.get("name")
    if kind.singleton:
        return _words(kind)
    return f"{_word(kind)} {name or document['id'][:_ID_DIGITS]}"


def _columns(kind: "Resource", rows: "Iterable[Document]") -> tuple[str, ...]:
    named = ("!key=code", "name") if "name" in kind.entity.model_fields else ("!key=name",)
    if kind.name in _COLUMNS:
        return (*named, *_COLUMNS[kind.name], "+!id")
    found: dict[str, None] = {}
    for each in rows:
        found |= {
            name: None
            for name, value in each.items()
            if name not in {"id", "code", "name"} and not isinstance(value, dict | list)
        }
    return (*named, *(f"?{name}" for name in list(found)[:_OTHER_COLUMNS]), "+!id")


def _print_csv(kind: "Resource", rows: "Iterable[Document]") -> None:
    """Print all fields; what is nested is JSON."""
    from meterlake.model.values import wire

    fields = [each.alias or name for name, each in kind.entity.model_fields.items()]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["id", *fields])
    for row in rows:
        values = [row.get(name) for name in ("id", *fields)]
        writer.writerow(
            "" if each is None else each if isinstance(each, str) else wire.dumps(each).decode()
            for each in values
        )


def _show_entity(
    organization: "Organization", document: "Document", described: "Document", output: "Output"
) -> None:
    from meterlake.pipeline.access.named_people import names_of_authors

    people = [document["createdBy"], document["lastModifiedBy"]]
    names = names_of_authors(organization, people)
    made, changed = (names.get(each, each) for each in people)
    output.record(
        {
            **described,
            "id": document["id"],
            "version": document["version"],
            "created": f"{_instant(document['dtCreated'])} by {made}",
            "changed": f"{_instant(document['dtLastModified'])} by {changed}",
        }
    )


def _instant(value: Any) -> str:
    from meterlake.cli.shell.tables import cell

    return cell(value.replace(microsecond=0))


def _show_referring(found: "Document", output: "Output") -> None:
    rows = [
        {
            "resource": each["kind"],
            "names": [
                one.get("code") or one.get("name") or one["id"][:_ID_DIGITS]
                for one in each["entities"][:_ID_DIGITS]
            ],
            "count": f"{len(each['entities'])}{'+' if each['more'] else ''}",
        }
        for each in found["referredBy"]
    ]
    if rows:
        output.rows(rows, ("resource", "count", "names"), "What refers to it")


def _show_history(
    organization: "Organization", changes: Sequence[Mapping[str, Any]], output: "Output"
) -> None:
    from meterlake.pipeline.access.named_people import with_names

    rows = [
        {
            "version": each["version"],
            "at": each["at"].replace(microsecond=0),
            "by": each["by"],
            "action": each["action"],
            "fields": [one["field"] for one in each["changes"]],
        }
        for each in changes
    ]
    columns = ("version", "at", "by", "action", "fields")
    output.rows(with_names(organization, rows, "by"), columns, "History")


def _given_fields(written: Written, fields: Mapping[str, str]) -> list[tuple[str, str]]:
    """The fields of the command line, in their order: options before `--set`.

    Raises:
        Invalid: A text after `--set` has no sign between a field and its value.
    """
    found = list(fields.items())
    for each in written.set:
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise Invalid("--set", each, "it must be a field and its value: field=value")
        found.append((name, value))
    return found


def _read_file(name: str | None) -> "Document":
    """The fields in a file, or none.

    Raises:
        NotFound: There is no such file.
        Invalid: It holds no fields.
    """
    from meterlake.pipeline.config.apply_configuration import read_document

    return {} if name is None else read_document(name, sys.stdin.buffer)


def _edited(described: "Document", title: str, output: "Output") -> "tuple[Document, Path]":
    """What somebody makes of the fields of one thing in an editor, and the file of it.

    Raises:
        Required: Nobody can edit here.
        Invalid: The editor failed, or left no fields.
    """
    from meterlake.model.values.documents import parse, to_yaml

    rule = "nobody can edit here; give --set or --file"
    require_somebody(output, Required("--set or --file", None, rule))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False, encoding="utf-8") as file:
        file.write(f"# {title}: save to change it; leave it as it is to change nothing.\n")
        file.write(to_yaml(described))
    path = Path(file.name)
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    code = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode  # noqa: S603 - the user's own editor
    if code:
        raise Invalid(
            "EDITOR", editor, f"it ended with {code}, and nothing was changed; it must end with 0"
        )
    content = parse(str(path), path.read_bytes())
    if not isinstance(content, dict):
        raise Invalid(str(path), content, "it must be a map of fields")
    return content, path


def _show_change(
    verb: str,
    kind: "Resource",
    document: "Document",
    differences: "Sequence[FieldDifference]",
    options: Options,
    dry_run: bool,
) -> None:
    from meterlake.cli.shell.tables import cell

    if options.json:
        options.output.line(document)
        return
    # Texts and numbers stand below each other.
    rows = [
        {"field": each.field, "old": cell(each.old), "new": cell(each.new)} for each in differences
    ]
    options.output.rows(rows, ("!field", "old", "new"))
    name = document.get("code") or document.get("name") or document["id"][:_ID_DIGITS]
    title = _word(kind) if kind.singleton else f"{_word(kind)} {name}"
    if not differences:
        options.output.note(f"Nothing differs: {title} stays as it is.")
    elif dry_run:
        options.output.note(f"{title} would be {verb} (dry run: nothing was written).")
    else:
        options.output.note(f"{title} {verb}, version {document['version']}.")
