"""What a run needs of the configuration when its turn comes: read once for many runs."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeVar

from sqlalchemy import Connection, select

from meterlake.model.configuration.integrations import IntegrationConfig, WebhookDestination
from meterlake.model.errors import NotFound
from meterlake.model.values import wire
from meterlake.model.values.entity import Entity, Record
from meterlake.stores.state import Reader
from meterlake.stores.state.core.tables import ENTITY_HISTORY
from meterlake.stores.state.integrations.health import Health
from meterlake.stores.state.integrations.runs import RunContent

K = TypeVar("K", bound=Entity)
WEBHOOK: Final = "WEBHOOK"


@dataclass(slots=True)
class Destinations:
    """The destinations of runs as they are in one transaction.

    Attributes:
        now: Secrets that were replaced long before it sign no more.
        overlap: How long they sign.
        troubled: How destinations are doing that do not do well.
    """

    connection: Connection
    now: datetime
    overlap: timedelta
    troubled: dict[str, Health]
    _found: dict[tuple[str, str, str], Record[Entity] | None] = field(default_factory=dict)
    _secrets: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    def config(self, org_id: str, content: RunContent) -> Record[IntegrationConfig] | None:
        """The configuration of a run's integration, if there is one."""
        return self._find(org_id, IntegrationConfig, content.config_id)

    def webhook(self, org_id: str, content: RunContent) -> Record[WebhookDestination] | None:
        """The webhook of a run, if it names one that there is."""
        if content.destination.upper() != WEBHOOK:
            return None
        return self._find(org_id, WebhookDestination, content.destination_id)

    def reason_not_to_send(self, org_id: str, content: RunContent) -> str | None:
        """Why nothing is sent for a run: what it goes to is switched off, disabled or gone."""
        if content.config_id is not None and self.config(org_id, content) is None:
            return "the integration was deleted"
        if content.destination.upper() == WEBHOOK:
            webhook = self.webhook(org_id, content)
            if webhook is None:
                return "the webhook was deleted"
            if not webhook.entity.active:
                return "the webhook is not active"
        for id_ in (content.queue, content.config_id):
            health = self.troubled.get(id_ or "")
            if health is not None and health.disabled is not None:
                return f"the integration is disabled: {health.reason}"
        return None

    def secrets(self, org_id: str, webhook: Record[WebhookDestination]) -> tuple[str, ...]:
        """The secrets that sign, encrypted: the newest one, and those that it replaced lately."""
        key = (org_id, webhook.id)
        if key not in self._secrets:
            newest = webhook.entity.credentials.secret
            if self.overlap:
                column = ENTITY_HISTORY.c
                query = select(column.body).where(
                    column.org == org_id,
                    column.kind == WebhookDestination.__name__,
                    column.id == webhook.id,
                    column.body.is_not(None),
                    column.valid_to > self.now - self.overlap,
                )
                bodies = self.connection.execute(query.order_by(column.version.desc())).scalars()
                before = [wire.loads(body)["credentials"]["secret"] for body in bodies]
            else:
                before = []
            self._secrets[key] = tuple(dict.fromkeys([newest, *before]))
        return self._secrets[key]

    def _find(self, org_id: str, kind: type[K], id: str | None) -> Record[K] | None:
        if id is None:
            return None
        key = (org_id, kind.__name__, id)
        if key not in self._found:
            try:
                self._found[key] = Reader(self.connection, org_id).get(kind, id)
            except NotFound:
                self._found[key] = None
        return self._found[key]  # type: ignore[return-value] # by its kind
