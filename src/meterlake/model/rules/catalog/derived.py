"""Rules of derived fields: what their calculations name exists, as long as they name it."""

from collections.abc import Iterator

from meterlake.model.calculation import InvalidCalculation
from meterlake.model.catalog.catalog import Meter, Product
from meterlake.model.catalog.lookups import LookupTable, LookupTableRevision
from meterlake.model.configuration.organization import CustomFields
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed, changes, check_dependents, display_name
from meterlake.model.scopes.derived import CUSTOM_FIELDS, DerivedScope
from meterlake.model.values.entity import Configuration, Record


def calculations_fit(new: Proposed[Meter]) -> None:
    """Every calculation can be read, names what the meter has, and gives what its field holds."""
    scope = DerivedScope(new.entity, new.configuration)
    for index, field in enumerate(new.entity.derived_fields):
        try:
            scope.check(field)
        except InvalidCalculation as error:
            location = f"derivedFields[{index}].calculation"
            raise error.as_invalid(location, field.calculation) from None


def calculations_keep_custom_fields(new: Proposed[CustomFields]) -> None:
    """A custom field that a calculation of a meter names stays, and stays a number or a text."""
    if not changes(new, "organization", "account", "meter", "product"):
        return
    meters = (
        record for record in new.configuration.all(Meter) if _names_custom_fields(record.entity)
    )
    check_dependents(meters, calculations_fit, new.configuration, CUSTOM_FIELDS, "changed")


def calculations_keep_product_fields(new: Proposed[Product]) -> None:
    """What a product's own custom fields are worth still fits the calculations that name them."""
    if not changes(new, "custom_fields"):
        return
    meters = new.configuration.where(Meter, "product_id", new.id)
    reading = (record for record in meters if _names_custom_fields(record.entity))
    check_dependents(reading, calculations_fit, new.configuration, CUSTOM_FIELDS, "changed")


def _names_custom_fields(meter: Meter) -> bool:
    return any(CUSTOM_FIELDS in field.calculation for field in meter.derived_fields)


def meters_looking_up(
    table: Record[LookupTable], configuration: Configuration
) -> Iterator[Record[Meter]]:
    """The meters whose calculations read a lookup table."""
    for record in configuration.all(Meter):
        if table.entity.code in record.entity.lookup_tables:
            yield record


def lookups_still_hold(
    table: Record[LookupTable], configuration: Configuration, status: str
) -> None:
    """Refuse to take away what calculations of meters look up.

    Raises:
        Invalid: Without it, a calculation could not be saved.
    """
    check_dependents(
        meters_looking_up(table, configuration), calculations_fit, configuration, "status", status
    )


def calculations_keep_columns(new: Proposed[LookupTableRevision]) -> None:
    """The columns and keys of a lookup table that a calculation of a meter reads stay."""
    if not changes(new, "fields", "keys"):
        return
    table = new.configuration.get(LookupTable, new.entity.lookup_table_id)
    meters = meters_looking_up(table, new.configuration)
    check_dependents(meters, calculations_fit, new.configuration, "fields", "changed")


def looked_up_code_stays(new: Proposed[LookupTable]) -> None:
    """A lookup table that a calculation of a meter names by its code keeps the code."""
    if not changes(new, "code"):
        return
    assert new.before is not None
    for meter in new.configuration.all(Meter):
        if new.before.code in meter.entity.lookup_tables:
            rule = (
                f"{display_name(meter)} names it by {new.before.code!r}; keep that, or change the"
                " calculations of the meter first"
            )
            raise Invalid("code", new.entity.code, rule)
