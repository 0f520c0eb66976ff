"""Events, integrations and what they map."""

from typing import Annotated, Any

from pydantic import Field

from meterlake.model.configuration.integrations import RunAction, RunStatus
from meterlake.model.values.entity import Envelope, Value
from meterlake.model.values.fields import Flag, Id, Instant, Integer, Number, Text


class EventResponse(Value):
    """Something that happened."""

    id: Id
    event_name: Text
    event_time: Instant
    m3ter_event: Annotated[dict[str, Any], Field(alias="m3terEvent")]
    dt_actioned: Instant | None = None


class EventTypeResponse(Value):
    """The names of all events."""

    events: tuple[Text, ...] = ()


class EventFieldsResponse(Value):
    """The fields of events, with their types, by the name of the event."""

    events: dict[str, dict[str, Text]] = Field(default_factory=dict)


class EvaluateCalculationRequest(Value):
    """A calculation of a notification, and the event to try it on."""

    event_id: Id | None = None
    event_name: Text | None = None
    calculation: Text | None = None


class EvaluateCalculationResponse(Value):
    """Whether a calculation can be evaluated."""

    success: Flag
    error_message: Text | None = None


class ConfigSettingResponse(Value):
    """One option."""

    name: Text
    type: Text
    required: Flag
    description: Text
    default: Any = None
    values: tuple[Text, ...] = ()


class ConfigOptions(Value):
    """Options of a configuration."""

    empty: Flag | None = None
    settings: tuple[ConfigSettingResponse, ...] = ()


class ConfigOptionValue(Value):
    """One value that an option can have."""

    id: Text | None = None
    label: Text | None = None


class ConfigOptionsResponse(ConfigOptionValue):
    """The first value that an option can have, and all of them."""

    values: tuple[ConfigOptionValue, ...] = ()


class DestinationConfiguration(Value):
    """Where entities of a type can go, and what is asked for on the way."""

    api_name: Text
    destination: Text
    display_name: Text
    destination_config_options: ConfigOptions
    auth_config_options: ConfigOptions
    released: Flag
    auth_type: Text
    categories: tuple[Text, ...]


class EntityConfiguration(Value):
    """The destinations of a type of entities."""

    readable_name: Text
    destinations: tuple[DestinationConfiguration, ...]
    entity_configuration_options: ConfigOptions
    released: Flag


class AvailableConfigurationResponse(Value):
    """What can be integrated, and how it is configured."""

    supported_entities: dict[str, EntityConfiguration]
    selected_configurations: dict[str, ConfigOptions]
    global_configuration_options: ConfigOptions


class SystemResponse(Value):
    """A system that integrations lead to."""

    identifier: Text | None = None
    display_name: Text | None = None
    validation_supported: Flag | None = None
    supported_auth_types: tuple[Text, ...] = ()


class SystemEntity(Value):
    """A type of entities that a system takes, or that is mapped to something there."""

    entity_type: Text | None = None
    external_table: Text | None = None
    sent: Flag | None = None


class IntegrationRunResponse(Envelope):
    """One run of an integration."""

    entity_type: Annotated[Text, Field(min_length=1)]
    entity_id: Annotated[Text, Field(min_length=1)]
    status: RunStatus
    action: RunAction | None = None
    destination: Text
    dt_started: Instant | None = None
    dt_completed: Instant | None = None
    destination_id: Text | None = None
    error: Text | None = None
    url: Text | None = None
    external_id: Text | None = None
    parent_integration_run_id: Text | None = None
    replayed_from_integration_run_id: Text | None = None
    integration_config_id: Text | None = None
    account_id: Text | None = None
    event_id: Text | None = None


class WebhookReplayResponse(Value):
    """How many runs are sent once more."""

    runs: Integer


class IntegrationRunLogResponse(Value):
    """What a run sent and got."""

    payload: Annotated[Text | None, Field(alias="Payload")] = None


class ExternalEntityResponse(Value):
    """An entity of an external system."""

    external_id: Text | None = None
    external_name: Text | None = None


class ExternalSystemResponse(Value):
    """An external system and its tables."""

    name: Annotated[Text, Field(min_length=1)]
    tables: tuple[Text, ...] = ()
    allow_custom_external_tables: Flag | None = None


class ExternalMappingConfigurationResponse(Value):
    """What can be mapped to what."""

    m3ter_entities: Annotated[tuple[Text, ...], Field(alias="m3terEntities")]
    external_systems: tuple[ExternalSystemResponse, ...]


class MarketplaceUsageReportResponse(Value):
    """Usage that was reported to a marketplace."""

    account_id: Id
    bill_id: Id
    external_system: Text
    reported_usage: dict[str, dict[str, Number]]
