"""The connectors that are installed: meterlake's own, and those of other people."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from meterlake.model.configuration.integration_systems import foreign_connectors
from meterlake.pipeline.integrations.connectors.connector import Connector
from meterlake.pipeline.integrations.connectors.http import HttpConnector
from meterlake.pipeline.integrations.connectors.marketplace import MarketplaceConnector
from meterlake.pipeline.integrations.connectors.stripe_invoices import STRIPE_CONNECTORS
from meterlake.pipeline.integrations.connectors.webhook import WebhookConnector

OWN: Final[tuple[Connector, ...]] = (
    HttpConnector(),
    MarketplaceConnector(),
    *STRIPE_CONNECTORS,
    WebhookConnector(),
)


@cache
def connectors() -> Mapping[str, Connector]:
    """All connectors by the names of their systems."""
    found = {each.declaration.name: each for each in (*foreign_connectors(), *OWN)}
    return MappingProxyType(found)
