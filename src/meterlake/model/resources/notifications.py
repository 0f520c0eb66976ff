"""Notifications and scheduled events."""

from typing import Final

from meterlake.model.notifications import NotificationConfiguration, ScheduledEventConfiguration
from meterlake.model.resources.resource import IDS, Filter, Resource
from meterlake.model.rules.notifications import scheduled_name_says_entity

ROWS: Final = (
    Resource(
        name="notificationConfigurations",
        path="notifications/configurations",
        entity=NotificationConfiguration,
        filters=(IDS, Filter("active", kind="flag"), Filter("eventName")),
        schema="Notification",
        permission="notificationconfiguration",
    ),
    Resource(
        name="scheduledEventConfigurations",
        path="scheduledevents/configurations",
        entity=ScheduledEventConfiguration,
        key=("name",),
        rules=(scheduled_name_says_entity,),
        schema="ScheduledEventConfiguration",
        permission="scheduledeventconfiguration",
    ),
)
