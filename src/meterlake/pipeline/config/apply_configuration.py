"""Configuration as code: apply files to an organization, export an organization as files."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from meterlake.model.configuration.network_addresses import PUBLIC_ONLY, AddressPolicy
from meterlake.model.errors import (
    CHECK_PATH,
    Conflict,
    Invalid,
    MeterlakeError,
    NotFound,
    StillReferenced,
    Unavailable,
    UnreadableConfiguration,
)
from meterlake.model.resources import code_of, resource_of, wire_name
from meterlake.model.resources.proposal import Document, Proposal
from meterlake.model.values import wire
from meterlake.model.values.documents import parse, to_yaml
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.problems import locate_error, refuse
from meterlake.model.values.secrets import (
    MASK,
    holds_secrets,
    keep_masked,
    mask_secrets,
    with_secrets,
)
from meterlake.pipeline.config.cautions import cautions
from meterlake.pipeline.config.duckdb_rules import Measured, custom_sql_rules
from meterlake.pipeline.config.entities import delete_in, refuse_booked
from meterlake.pipeline.config.hooks import hooks_of
from meterlake.pipeline.config.lone_price_changes import EntityEdit, refuse_lone_changes
from meterlake.pipeline.config.webhook_addresses import webhook_rules
from meterlake.stages.config.check import check
from meterlake.stages.config.describe import describe, describe_all
from meterlake.stages.config.diff import propose
from meterlake.stages.config.prune import in_use, left_out, name_of
from meterlake.stores.custom_sql import LIMITS, SqlLimits
from meterlake.stores.state import Reader, State, Transaction, new_id

SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


class ChangeAction(StrEnum):
    """What happened to an entity, or would happen."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One field that differs; None where there is no value."""

    field: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class EntityChange:
    """What happened to one entity of the files.

    Attributes:
        kind: The key in configuration files: `planTemplates`.
        name: Its code, or what identifies it otherwise.
        differences: Field by field, references by code.
        ignored: Names in the file that mean nothing.
        without_effect: What it says that does nothing, or is a trap, in sentences.
    """

    place: str
    kind: str
    name: str
    id: str
    action: ChangeAction
    differences: tuple[FieldDifference, ...]
    ignored: tuple[str, ...]
    without_effect: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """How files are applied.

    Attributes:
        dry_run: Only find out what would happen.
        allow_unknown: Names that mean nothing are ignored, not refused.
        prune: Entities of the kinds in the files that the files leave out are deleted.
        approved: The ids that may be deleted, if somebody was asked; None if nobody was.
        measured: Finds what of it has measurements; nobody looks if None.
        versions: The versions that entities must still have, by id; nobody looks if there are none.
        limits: What the SQL of aggregations may take.
        addresses: Where webhooks may lead.
    """

    dry_run: bool = False
    allow_unknown: bool = False
    prune: bool = False
    approved: frozenset[str] | None = None
    measured: Measured | None = None
    versions: Mapping[str, int] = field(default_factory=dict)
    limits: SqlLimits = LIMITS
    addresses: AddressPolicy = PUBLIC_ONLY


APPLY: Final = ApplyOptions()


def read_documents(paths: Iterable[Path]) -> list[Document]:
    """Read configuration files, and all `.yaml`, `.yml` and `.json` files of folders, by name.

    Raises:
        NotFound: There is no such file or folder.
        UnreadableConfiguration: A file is no YAML or JSON.
        InvalidConfiguration: Several are none.
        Unavailable: A file cannot be read.
    """
    documents: list[Document] = []
    unreadable: list[MeterlakeError] = []
    for file in (file for path in paths for file in _files(path)):
        data = _bytes(file)
        try:
            documents.append(Document(str(file), parse(str(file), data), data))
        except UnreadableConfiguration as error:
            unreadable.append(error)
    refuse(unreadable)
    return documents


def read_document(name: str, standard_input: IO[bytes]) -> dict[str, Any]:
    """Read the fields of one entity: a map in a YAML or JSON file; `-` is the standard input.

    Raises:
        NotFound: There is no such file.
        UnreadableConfiguration: It is no YAML or JSON.
        Invalid: It is no map.
        Unavailable: It cannot be read.
    """
    path = Path(name)
    if name != "-" and not path.is_file():
        raise NotFound("file", name)
    found = parse(name, standard_input.read() if name == "-" else _bytes(path))
    if not isinstance(found, dict):
        raise Invalid("--file", name, "it must hold a map of fields, such as `code: acme`")
    return found


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
    elif path.exists():
        yield path
    else:
        raise NotFound("file", str(path))


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise Unavailable(str(file), error.strerror or str(error), CHECK_PATH) from error


def apply(
    state: State,
    org_id: str,
    documents: Sequence[Document],
    author: str,
    options: ApplyOptions = APPLY,
) -> list[EntityChange]:
    """Bring an organization to what documents say; what they do not mention stays as it is.

    A field that an entity's document leaves out takes its default; of what an organization has
    exactly once it stays as it is. All or nothing.

    Args:
        state: The store.
        org_id: The organization.
        documents: See `propose`.
        author: Who does it.
        options: How.

    Returns:
        One change per entity of the documents, each after what it refers to, then what is deleted.

    Raises:
        Invalid: Something is wrong; the sentence names the first few places, `problems` all.
        StillReferenced: Something refers to what would be deleted.
        Conflict: What would be deleted is no longer what somebody was asked about.
        Forbidden: It changes prices that two persons have to look at.
    """
    if options.dry_run:
        with state.reading(org_id) as reader:
            return plan_changes(state, reader, documents, options).changes
    # Look into the lake before anything is written, as nobody else writes in a transaction.
    if options.prune and options.measured is not None:
        with state.reading(org_id) as reader:
            gone = plan_changes(state, reader, documents, options).gone
        options = replace(options, measured=None, approved=frozenset(each.id for each in gone))
    with state.transaction(org_id, author) as transaction:
        plan = plan_changes(state, transaction, documents, options)
        changed = (
            EntityEdit(each.before, each.record()) for each in plan.proposals if each.changed
        )
        refuse_lone_changes(transaction, author, changed)
        write_changes(state, transaction, plan)
    return plan.changes


def write_changes(state: State, transaction: Transaction, plan: "ChangePlan") -> None:
    """Make the changes of a plan that was made in the same transaction."""
    for proposal in plan.proposals:
        before, sealed = proposal.before, _encrypt_secrets(state, proposal).entity
        if before is None:
            transaction.create(sealed, proposal.id)
        elif proposal.changed:
            hooks = hooks_of(before)
            hooks.before_update(transaction, sealed)
            transaction.update(proposal.id, before.version, sealed)
            hooks.after_update(transaction, proposal.id, before.entity, proposal.entity)
    for record in plan.gone:
        delete_in(transaction, record)


def propose_changes(
    state: State, reader: Reader, documents: Sequence[Document], options: ApplyOptions = APPLY
) -> list[Record[Any]]:
    """The entities that documents would create or change, as they would be; nothing is written.

    Args:
        state: The store.
        reader: Of the organization as it is.
        documents: See `propose`.
        options: How.

    Raises:
        Invalid: Something is wrong, as with `apply`.
    """
    proposals = plan_changes(state, reader, documents, options).proposals
    return [_encrypt_secrets(state, each).record() for each in proposals if each.changed]


class ChangePlan(NamedTuple):
    """What would happen.

    Attributes:
        changes: One for each entity of the documents, and of those that go.
        proposals: The entities of the documents as they would be.
        gone: Those that would be deleted.
        before: The configuration as it is.
        after: As it would be.
    """

    changes: list[EntityChange]
    proposals: list[Proposal]
    gone: list[Record[Any]]
    before: Configuration
    after: Configuration


def plan_changes(
    state: State, reader: Reader, documents: Sequence[Document], options: ApplyOptions
) -> ChangePlan:
    """What applying documents would do; nothing is written.

    Raises:
        Invalid: Something is wrong, as with `apply`.
    """
    # A configuration with its secrets readable, to compare them with those of documents.
    configuration = reader.configuration()
    if not any(map(holds_secrets, configuration.kinds())):
        before = configuration
    else:
        before = _with_secrets(configuration, state.secrets.decrypt)
    proposed = propose(
        reader.org_id, before, documents, new_id, allow_unknown=options.allow_unknown
    )
    proposals = [_with_kept(each) for each in proposed]
    gone = left_out(before, documents, proposals) if options.prune else []
    if gone:
        measured = options.measured(gone) if options.measured else ()
        booked: list[MeterlakeError] = []
        for record in gone:
            try:
                refuse_booked(reader, record)
            except StillReferenced as error:
                booked.append(
                    StillReferenced(error.args[0], name_of(record, before), error.args[2])
                )
        refuse(
            [
                *in_use(
                    gone, Configuration((*_records(before), *(each.record() for each in proposals)))
                ),
                *booked,
                *measured,
            ]
        )
    further = {**custom_sql_rules(options.limits), **webhook_rules(options.addresses, reader)}
    after = check(_without(before, gone), proposals, further)
    if options.approved is not None and options.approved != {each.id for each in gone}:
        raise Conflict("the configuration has changed meanwhile; look again at what is deleted")
    _check_versions(proposals, options.versions)
    changes = [_change(proposal, before, after) for proposal in proposals]
    for each in gone:
        kind, name = resource_of(each.entity).name, name_of(each, before)
        changes.append(EntityChange("", kind, name, each.id, ChangeAction.DELETED, (), ()))
    return ChangePlan(changes, proposals, gone, before, after)


def _check_versions(proposals: Sequence[Proposal], versions: Mapping[str, int]) -> None:
    """What somebody has looked at is as it was.

    Raises:
        Conflict: An entity has another version, or is gone.
    """
    found = {each.id: each.before.version for each in proposals if each.before is not None}
    if any(found.get(id_) != version for id_, version in versions.items()):
        raise Conflict("the configuration has changed meanwhile; look again at what would change")


def _without(configuration: Configuration, gone: Sequence[Record[Any]]) -> Configuration:
    if not gone:
        return configuration
    ids = {each.id for each in gone}
    return Configuration(each for each in _records(configuration) if each.id not in ids)


def _records(configuration: Configuration) -> Iterator[Record[Any]]:
    for kind in configuration.kinds():
        yield from configuration.all(kind)


def _with_secrets(configuration: Configuration, change: Callable[[str], str]) -> Configuration:
    return Configuration(
        replace(record, entity=with_secrets(record.entity, change))
        for record in _records(configuration)
    )


def _encrypt_secrets(state: State, proposal: Proposal) -> Proposal:
    if not proposal.changed or not holds_secrets(type(proposal.entity)):
        return proposal
    return replace(proposal, entity=with_secrets(proposal.entity, state.secrets.encrypt))


def _with_kept(proposal: Proposal) -> Proposal:
    try:
        entity = keep_masked(proposal.before and proposal.before.entity, proposal.entity)
    except Invalid as error:
        raise locate_error(proposal.place, error) from None
    return replace(proposal, entity=entity)


def _change(proposal: Proposal, before: Configuration, after: Configuration) -> EntityChange:
    new = describe(mask_secrets(proposal.record()), after)
    old = {} if proposal.before is None else describe(mask_secrets(proposal.before), before)
    differences = tuple(
        FieldDifference(name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if proposal.changed and wire.dumps_sorted(old.get(name)) != wire.dumps_sorted(new.get(name))
    )
    action = ChangeAction.CREATED if proposal.before is None else ChangeAction.UPDATED
    code = code_of(proposal.entity)
    if code is not None or proposal.resource.singleton:
        name = code or ""
    else:
        key = [new.get(wire_name(field)) for field in proposal.resource.key]
        name = " ".join(str(value) for value in key if value is not None) or proposal.id
    return EntityChange(
        place=proposal.place,
        kind=proposal.resource.name,
        name=name,
        id=proposal.id,
        action=action if proposal.changed else ChangeAction.UNCHANGED,
        differences=differences,
        ignored=proposal.ignored,
        without_effect=tuple(cautions(proposal.entity, after)),
    )


def export(state: State, org_id: str) -> dict[str, Any]:
    """Everything that configuration files hold of an organization.

    Applied to an empty organization it makes the same configuration; applied to the organization
    itself it changes nothing. Secrets are masked: they have to be put in before the first.
    """
    return describe_all(_with_secrets(state.configuration(org_id), lambda _: MASK))


def export_yaml(state: State, org_id: str) -> str:
    """The same as a YAML file."""
    return to_yaml(export(state, org_id))
