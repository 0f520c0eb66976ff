"""Notifications and scheduled events."""

from typing import Final

from meterlake.model.configuration.notifications import (
    NotificationConfiguration,
    ScheduledEventConfiguration,
)
from meterlake.model.resources.notification_rules import (
    calculation_holds_or_not,
    event_exists,
    notified_event_stays,
    scheduled_for_a_date,
    scheduled_name_says_entity,
)
from meterlake.model.resources.resource import IDS, Filter, Resource

ROWS: Final = (
    Resource(
        name="notificationConfigurations",
        path="notifications/configurations",
        entity=NotificationConfiguration,
        rules=(event_exists, calculation_holds_or_not),
        filters=(IDS, Filter("active", kind="flag"), Filter("eventName")),
        schema="Notification",
        permission="notificationconfiguration",
        operations={"create": "CreateNotification", "update": "UpdateNotification"},
    ),
    Resource(
        name="scheduledEventConfigurations",
        path="scheduledevents/configurations",
        entity=ScheduledEventConfiguration,
        key=("name",),
        rules=(
            scheduled_for_a_date,
            scheduled_name_says_entity,
            notified_event_stays,
        ),
        schema="ScheduledEventConfiguration",
        permission="scheduledeventconfiguration",
        operations={
            "create": "CreateScheduledEventConfiguration",
            "update": "UpdateScheduledEventConfiguration",
        },
    ),
)
