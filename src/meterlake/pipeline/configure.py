"""Configuration as code: apply files to an organization, export an organization as files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final

from meterlake.model import wire
from meterlake.model.documents import parse, to_yaml
from meterlake.model.entity import Configuration
from meterlake.model.errors import Invalid, NotFound, Unavailable
from meterlake.model.organization import BillConfig
from meterlake.model.problems import located
from meterlake.model.proposal import Document, Proposal
from meterlake.model.resources import code_of, wire_name
from meterlake.model.secrets import MASK, holds_secrets, keep_masked, with_secrets
from meterlake.pipeline.bill_config import refuse_pending
from meterlake.pipeline.custom_sql_rules import custom_sql_rules
from meterlake.pipeline.entities import masked
from meterlake.stages.check import check
from meterlake.stages.describe import describe, describe_all
from meterlake.stages.propose import propose
from meterlake.stores.custom_sql import LIMITS, Limits
from meterlake.stores.state import State, Transaction, new_id

SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


class Action(StrEnum):
    """What happened to an entity, or would happen."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs; None where there is no value."""

    field: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one entity of the files.

    Attributes:
        kind: The key in configuration files: `planTemplates`.
        name: Its code, or what identifies it otherwise.
        differences: Field by field, references by code.
        ignored: Names in the file that mean nothing.
    """

    place: str
    kind: str
    name: str
    id: str
    action: Action
    differences: tuple[Difference, ...]
    ignored: tuple[str, ...]


def read_documents(paths: Iterable[Path]) -> list[Document]:
    """Read configuration files, and all `.yaml`, `.yml` and `.json` files of folders, by name.

    Raises:
        NotFound: There is no such file or folder.
        UnreadableConfiguration: A file is no YAML or JSON.
        Unavailable: A file cannot be read.
    """
    return [
        Document(str(file), parse(file.name, _bytes(file)))
        for path in paths
        for file in _files(path)
    ]


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
        raise Unavailable(str(file), error.strerror or str(error)) from error


def apply(
    state: State,
    org_id: str,
    documents: Sequence[Document],
    author: str,
    *,
    dry_run: bool = False,
    limits: Limits = LIMITS,
) -> list[Change]:
    """Bring an organization to what documents say; what they do not mention stays as it is.

    A field that an entity's document leaves out takes its default. All or nothing.

    Args:
        state: The store.
        org_id: The organization.
        documents: See `propose`.
        author: Who does it.
        dry_run: Only find out what would happen.
        limits: What the SQL of aggregations may take.

    Returns:
        One change per entity of the documents, each after what it refers to.

    Raises:
        Invalid: Something is wrong; the sentence names the first few places.
    """
    if dry_run:
        before = _opened(state, state.configuration(org_id))
        changes, _ = _worked_out(org_id, before, documents, limits)
        return changes
    with state.transaction(org_id, author) as transaction:
        before = _opened(state, transaction.configuration())
        changes, proposals = _worked_out(org_id, before, documents, limits)
        _write(transaction, map(partial(_sealed, state), proposals))
    return changes


def _opened(state: State, configuration: Configuration) -> Configuration:
    """A configuration with its secrets readable, to compare them with those of documents."""
    if not any(map(holds_secrets, configuration.kinds())):
        return configuration
    return _with_secrets(configuration, state.secrets.decrypt)


def _with_secrets(configuration: Configuration, change: Callable[[str], str]) -> Configuration:
    return Configuration(
        replace(record, entity=with_secrets(record.entity, change))
        for kind in configuration.kinds()
        for record in configuration.all(kind)
    )


def _sealed(state: State, proposal: Proposal) -> Proposal:
    if not proposal.changed or not holds_secrets(type(proposal.entity)):
        return proposal
    return replace(proposal, entity=with_secrets(proposal.entity, state.secrets.encrypt))


def _with_kept(proposal: Proposal) -> Proposal:
    try:
        entity = keep_masked(proposal.before and proposal.before.entity, proposal.entity)
    except Invalid as error:
        raise located(proposal.place, error) from None
    return replace(proposal, entity=entity)


def _worked_out(
    org_id: str, before: Configuration, documents: Sequence[Document], limits: Limits
) -> tuple[list[Change], list[Proposal]]:
    proposals = [_with_kept(each) for each in propose(org_id, before, documents, new_id)]
    after = check(before, proposals, custom_sql_rules(limits))
    return [_change(proposal, before, after) for proposal in proposals], proposals


def _write(transaction: Transaction, proposals: Iterable[Proposal]) -> None:
    for proposal in proposals:
        if proposal.before is None:
            transaction.create(proposal.entity, proposal.id)
        elif proposal.changed:
            if isinstance(proposal.entity, BillConfig):
                refuse_pending(transaction, proposal.entity)
            transaction.update(proposal.id, proposal.before.version, proposal.entity)


def _change(proposal: Proposal, before: Configuration, after: Configuration) -> Change:
    new = describe(masked(proposal.record()), after)
    old = {} if proposal.before is None else describe(masked(proposal.before), before)
    differences = tuple(
        Difference(name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if proposal.changed and wire.dumps_sorted(old.get(name)) != wire.dumps_sorted(new.get(name))
    )
    action = Action.CREATED if proposal.before is None else Action.UPDATED
    return Change(
        place=proposal.place,
        kind=proposal.resource.name,
        name=_name(proposal, new),
        id=proposal.id,
        action=action if proposal.changed else Action.UNCHANGED,
        differences=differences,
        ignored=proposal.ignored,
    )


def _name(proposal: Proposal, document: dict[str, Any]) -> str:
    code = code_of(proposal.entity)
    if code is not None or proposal.resource.singleton:
        return code or ""
    key = [document.get(wire_name(field)) for field in proposal.resource.key]
    return " ".join(str(value) for value in key if value is not None) or proposal.id


def export(state: State, org_id: str) -> dict[str, Any]:
    """Everything that configuration files hold of an organization.

    Applied to an empty organization it makes the same configuration; applied to the organization
    itself it changes nothing. Secrets are masked: they have to be put in before the first.
    """
    return describe_all(_with_secrets(state.configuration(org_id), lambda _: MASK))


def export_yaml(state: State, org_id: str) -> str:
    """The same as a YAML file."""
    return to_yaml(export(state, org_id))
