"""The currencies of an organization as they are now."""

from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stores import Organization
from meterlake.stores.state.core.stored_configuration import StoredConfiguration


def read_currencies(organization: Organization) -> Currencies:
    """The currencies of an organization, with their decimals and rates."""
    with organization.reading() as reader:
        configuration = StoredConfiguration(reader)
        return Currencies.of(configuration, configuration.single(OrganizationConfig).entity)
