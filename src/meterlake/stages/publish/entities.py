"""The tables of configuration: for every kind of entity what is, what was, and a macro between.

The rule of their names: a table is named like the entity and a column like the field on the wire,
in lower case with `_` between words; the envelope's are `created` and `modified`.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from meterlake.model.catalog.catalog import Meter
from meterlake.model.catalog.plans import Plan, Pricing
from meterlake.model.configuration.field_descriptions import meaning, table_of
from meterlake.model.configuration.integrations import IntegrationConfig, WebhookDestination
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.contracts import Commitment
from meterlake.model.resources import RESOURCES, Resource
from meterlake.model.values.entity import Entity
from meterlake.model.values.fields import SecretMark
from meterlake.model.values.secrets import holds_secrets
from meterlake.stages.publish.tables import (
    INSTANT,
    INTEGER,
    NUMBER,
    TEXT,
    PublishedColumn,
    Table,
    sql_type,
)

# People put passwords into the one, and addresses that are as good as one into the other.
_HIDDEN: Final = {(IntegrationConfig, "config_data"), (WebhookDestination, "url")}
# What is calculated, or stands deeper in the document; only what is now has it.
_MORE: Final[dict[type[Entity], tuple[PublishedColumn, ...]]] = {
    Account: (PublishedColumn("country", TEXT, "The country of its address.", "address.country"),),
    Meter: (PublishedColumn("table_name", TEXT, "Where its measurements are read.", "tableName"),),
    Plan: (
        PublishedColumn("product_id", TEXT, "product.id of its template.", "productId"),
        PublishedColumn("plan_template_name", TEXT, "The name of its template.", "template.name"),
        PublishedColumn("currency", TEXT, "The currency of its prices.", "template.currency"),
        PublishedColumn("bill_frequency", TEXT, "How often you bill it.", "template.billFrequency"),
        PublishedColumn(
            "effective_standing_charge",
            NUMBER,
            "The price of a full period before any usage, in `currency`; its own or its template's.",
            "effectiveStandingCharge",
        ),
    ),
    AccountPlan: (PublishedColumn("product_id", TEXT, "product.id of the plan.", "productId"),),
    Balance: (
        PublishedColumn(
            "amount",
            NUMBER,
            "The amount that it holds now, in `currency`; see `posting`.",
            "amount",
        ),
    ),
    Commitment: (
        PublishedColumn(
            "amount_spent",
            NUMBER,
            "The amount that bills drew from it, in `currency`.",
            "amountSpent",
        ),
    ),
    Pricing: (PublishedColumn("aggregation_type", TEXT, "SIMPLE or COMPOUND.", "aggregationType"),),
}
_ENVELOPE: Final = (
    ("created", INSTANT, "dtCreated"),
    ("created_by", TEXT, "createdBy"),
    ("modified", INSTANT, "dtLastModified"),
    ("modified_by", TEXT, "lastModifiedBy"),
)


class EntityTable(NamedTuple):
    """The tables of one kind of entity."""

    kind: type[Entity]
    current: Table
    history: Table

    @property
    def macro(self) -> str:
        """The name of the macro that gives the table as it was at an instant."""
        return f"{self.current.name}_at"

    @property
    def macro_doc(self) -> str:
        """What the macro gives."""
        return (
            f"The rows of {self.history.name} that were true at an instant, UTC if it has no zone."
        )

    @property
    def macro_statement(self) -> str:
        """The statement that creates the macro."""
        columns = [each.name for each in self.history.columns if each.name not in _VALIDITY]
        listed = ", ".join(f'"{name}"' for name in columns)
        return (
            f'CREATE MACRO "{self.macro}"(_instant) AS TABLE SELECT {listed}'
            f' FROM "{self.history.name}" WHERE valid_from <= {_INSTANT}'
            f" AND (valid_to IS NULL OR valid_to > {_INSTANT})"
        )


_VALIDITY: Final = frozenset({"valid_from", "valid_to"})
# The argument of a macro, whose name must not be that of a column, as naive UTC. A plain cast would
# take the clock of the session's zone from what has a zone, and forget an offset in a text.
_INSTANT: Final = (
    "CASE WHEN regexp_matches(_instant::VARCHAR, ':.*[-+Zz]')"
    " THEN make_timestamp(epoch_us(_instant::VARCHAR::TIMESTAMPTZ))"
    " ELSE _instant::VARCHAR::TIMESTAMP END"
)


def entity_table_name(kind: type[Entity]) -> str:
    """The name of the table of a kind: `account_plan` for AccountPlan."""
    return table_of(kind)


def _entity_table(resource: Resource) -> EntityTable:
    name = entity_table_name(resource.entity)
    doc = (resource.entity.__doc__ or "").partition("\n")[0]
    own = tuple(_columns(resource, name))
    more = tuple(
        each for each in _MORE.get(resource.entity, ()) if each.name not in {c.name for c in own}
    )
    head = (
        _document_column(name, "id", TEXT, "id"),
        _document_column(name, "version", INTEGER, "version"),
    )
    tail = tuple(_document_column(name, *each) for each in _ENVELOPE)
    validity = (
        _document_column(name, "valid_from", INSTANT, "validFrom"),
        _document_column(name, "valid_to", INSTANT, "validTo"),
    )
    return EntityTable(
        resource.entity,
        Table(name, f"{doc} One row each.", (*head, *own, *more, *tail)),
        Table(
            f"{name}_history",
            f"{doc} One row for each version that ever was.",
            (*head, *validity, *own, *tail),
        ),
    )


def _columns(resource: Resource, table: str) -> Iterator[PublishedColumn]:
    for attribute, field in resource.entity.model_fields.items():
        if (resource.entity, attribute) in _HIDDEN or (
            any(isinstance(each, SecretMark) for each in field.metadata)
            or holds_secrets(field.annotation)
        ):
            continue
        name = attribute.rstrip("_")
        path = field.alias or attribute
        target = resource.refs.get(attribute)
        referred = None if target is None else f"{entity_table_name(target)}.id."
        doc = meaning(table, name) or referred or f"The API's `{path}`."
        yield PublishedColumn(name, sql_type(field.annotation), doc, path)


def _document_column(table: str, name: str, type: str, path: str) -> PublishedColumn:
    doc = meaning(table, name)
    assert doc is not None, name
    return PublishedColumn(name, type, doc, path)


ENTITY_TABLES: Final = tuple(_entity_table(resource) for resource in RESOURCES)
