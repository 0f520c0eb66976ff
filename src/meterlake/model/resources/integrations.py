"""Webhooks, integrations and external mappings."""

from typing import Final

from meterlake.model.configuration.integrations import (
    ExternalMapping,
    IntegrationConfig,
    WebhookDestination,
)
from meterlake.model.resources.resource import Filter, Resource
from meterlake.model.rules.integrations import (
    credentials_shown,
    integration_fits_its_system,
    integration_state,
    mapping_is_the_only_one,
    named_ids,
    webhook_can_sign,
    webhook_has_url,
)

ROWS: Final = (
    Resource(
        name="webhooks",
        path="integrationdestinations/webhooks",
        entity=WebhookDestination,
        key=("name",),
        rules=(webhook_has_url, webhook_can_sign),
        computed=credentials_shown,
        page_max=200,
        schema="WebhookDestination",
        permission="webhookdestination",
        operations={
            "create": "CreateWebhookDestination",
            "retrieve": "GetWebhookIntegrationDestination",
            "list": "ListWebhookIntegrations",
            "update": "UpdateWebhookDestination",
        },
    ),
    Resource(
        name="integrationConfigs",
        path="integrationconfigs",
        entity=IntegrationConfig,
        # Of other systems the configuration says itself where they are.
        refs={"destination_id": WebhookDestination},
        names=named_ids,
        key=("entity_type", "entity_id", "destination", "destination_id", "name"),
        rules=(integration_fits_its_system,),
        computed=integration_state,
        filters=(Filter("destinationId"),),
        page_max=200,
        schema="IntegrationConfig",
        permission="integrationconfig",
        operations={"list": "GetIntegrationConfigs", "update": "UpdateIntegrationConfig"},
    ),
    Resource(
        name="externalMappings",
        path="externalmappings",
        entity=ExternalMapping,
        refs={"integration_config_id": IntegrationConfig},
        # What a bill became there is true without the integration, too.
        released=("integration_config_id",),
        indexed=("m3ter_id",),
        rules=(mapping_is_the_only_one,),
        key=("m3ter_entity", "m3ter_id", "external_system", "external_table", "external_id"),
        filters=(
            Filter("externalSystemId", field="externalSystem"),
            Filter("m3terIds", field="m3terId", several=True),
            Filter("integrationConfigId"),
        ),
        page_max=200,
        schema="ExternalMapping",
        permission="externalmapping",
        operations={"create": "CreateExternalMapping", "update": "UpdateExternalMapping"},
    ),
)
