"""The connectors that are installed."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from meterlake.pipeline.integrations.connectors.connector import Connector
from meterlake.pipeline.integrations.connectors.webhook import WebhookConnector

OWN: Final[tuple[Connector, ...]] = (WebhookConnector(),)


@cache
def connectors() -> Mapping[str, Connector]:
    """All connectors by the names of their systems."""
    return MappingProxyType({each.system: each for each in OWN})
