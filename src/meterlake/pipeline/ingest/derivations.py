"""What ingest has to know of the configuration: meters, derived fields and account codes, each at one state."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

from meterlake.model.calculation import CalculationError, InvalidCalculation, Lookup, Value, names
from meterlake.model.catalog.catalog import Meter
from meterlake.model.catalog.lookup_keys import join_key
from meterlake.model.catalog.lookups import LookupTable, active_revision
from meterlake.model.measurements.measurement import Field, MeterFields
from meterlake.model.scopes.derived import ACCOUNT, ACCOUNT_CODE, CUSTOM_FIELDS, DerivedScope
from meterlake.model.values.entity import Record
from meterlake.stages.ingest.derive import AccountValues, Calculation, Derivation
from meterlake.stages.ingest.validate.account_codes import AccountCodes
from meterlake.stores.state import Reader, State
from meterlake.stores.state import lookups as stored
from meterlake.stores.state.core.account_names import AccountFields, account_fields, typed_value
from meterlake.stores.state.core.auto_accounts import AccountIds, newer_account_ids
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

Items = Mapping[str, Mapping[str, Any]]

# A published revision never changes: its items are read once.
_KEPT_MAX: Final = 16
_items: Final[WeakKeyDictionary[State, dict[str, Items]]] = WeakKeyDictionary()
_lock: Final = Lock()
_known_codes: Final[WeakKeyDictionary[State, dict[str, tuple[AccountIds, AccountCodes]]]] = (
    WeakKeyDictionary()
)
_codes_lock: Final = Lock()


@dataclass(frozen=True, slots=True)
class Derivations:
    """How the derived fields of all meters are calculated.

    Attributes:
        by_meter: By the id of the meter; only meters that have derived fields.
        versions: What of the configuration is read for every measurement: versions by id.
        accounts: The versions of the accounts that carry custom fields themselves.
    """

    by_meter: Mapping[str, Derivation] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    accounts: Mapping[str, int] = field(default_factory=dict)

    def versions_used(self, used: Iterable[str]) -> dict[str, int]:
        """The versions that a source was calculated with, given the accounts that it used."""
        return {**self.versions, **{account: self.accounts[account] for account in sorted(used)}}


NO_DERIVATIONS: Final = Derivations()


def read_meters(state: State, org_id: str) -> tuple[dict[str, MeterFields], Derivations]:
    """The meters by code, and how their derived fields are calculated."""
    with state.reading(org_id) as reader:
        meters = reader.all(Meter)
        derivations = _Reading(reader, state).derivations(meters)
    return {
        meter.entity.code: MeterFields(
            meter.id,
            meter.version,
            meter.entity.code,
            tuple(Field(each.category, each.code) for each in meter.entity.data_fields),
            tuple(Field(each.category, each.code) for each in meter.entity.derived_fields),
        )
        for meter in meters
    }, derivations


class _Reading:
    """Reads what calculations name, each thing once."""

    def __init__(self, reader: Reader, state: State) -> None:
        self.reader = reader
        self.state = state
        self.configuration = StoredConfiguration(reader)
        self.versions: dict[str, int] = {}
        self.tables: dict[str, Items] = {}
        self._accounts: list[AccountFields] | None = None

    def derivations(self, meters: Iterable[Record[Meter]]) -> Derivations:
        found = {
            meter.id: self._derivation(meter.entity)
            for meter in meters
            if meter.entity.derived_fields
        }
        if not found:
            return NO_DERIVATIONS
        accounts = {each.id: each.version for each in self._accounts or ()}
        return Derivations(found, self.versions, accounts)

    def _derivation(self, meter: Meter) -> Derivation:
        scope = DerivedScope(meter, self.configuration)
        calculations = tuple(
            _calculation(scope, meter, n) for n in range(len(meter.derived_fields))
        )
        read = {name for each in calculations if each.tree for name in names(each.tree)}
        for code in meter.lookup_tables:
            table = self.configuration.find(LookupTable, code)
            revision = active_revision(table, self.configuration) if table else None
            if revision is not None and code not in self.tables:
                self.versions[revision.id] = revision.version
                self.tables[code] = self._read_items(revision.id)
        if any(name.startswith(f"{CUSTOM_FIELDS}.") for name in read):
            for record in (scope.defaults_record, scope.product()):
                if record is not None:
                    self.versions[record.id] = record.version
        defaults = {
            name: scope.account_defaults[name] for name in scope.account_defaults.keys() & read
        }
        if defaults and self._accounts is None:
            self._accounts = list(account_fields(self.reader))
        account_values = {
            name: AccountValues(value, self._own(name)) for name, value in defaults.items()
        }
        return Derivation(
            meter.code,
            calculations,
            _columns(meter, read),
            account_values,
            {name: value for name, value in scope.constants().items() if name in read},
            self._lookup(),
        )

    def _own(self, name: str) -> dict[str, Value]:
        bare = name.removeprefix(ACCOUNT)
        return {each.id: each.values[bare] for each in self._accounts or () if bare in each.values}

    def _read_items(self, revision_id: str) -> Items:
        with _lock:
            kept = _items.setdefault(self.state, {})
            if revision_id in kept:
                return kept[revision_id]
        read = {
            key: {name: typed_value(value) for name, value in item.items()}
            for key, item in stored.all_items(self.reader, revision_id)
        }
        with _lock:
            while len(kept) >= _KEPT_MAX:
                del kept[next(iter(kept))]
            kept[revision_id] = read
        return read

    def _lookup(self) -> Lookup:
        tables = self.tables

        def lookup(table: str, name: str, keys: tuple[Value, ...]) -> Value:
            if table not in tables:
                raise CalculationError(f"lookup table {table!r} has no published revision")
            item = tables[table].get(join_key(keys))
            return None if item is None else item.get(name)

        return lookup


def _calculation(scope: DerivedScope, meter: Meter, index: int) -> Calculation:
    derived = meter.derived_fields[index]
    place = Field(derived.category, derived.code)
    try:
        return Calculation(place, scope.check(derived))
    except InvalidCalculation as error:
        # Saved by a version that did not look at it, or what it names is not there any more.
        return Calculation(place, None, str(error))


def _columns(meter: Meter, read: set[str]) -> dict[str, str]:
    fields = {each.code: Field(each.category, each.code).column for each in meter.data_fields}
    return {
        name: column
        for name, column in {
            **fields,
            "ts": "ts",
            "ets": "ets",
            ACCOUNT_CODE: ACCOUNT_CODE,
        }.items()
        if name in read
    }


def account_codes(state: State, org_id: str) -> AccountCodes:
    """All account codes as they are now; read again only if an account has changed."""
    with _codes_lock:
        kept = _known_codes.setdefault(state, {}).get(org_id)
    ids = newer_account_ids(state, org_id, kept[0] if kept else None)
    if kept is not None and ids.ids is kept[0].ids:
        codes = kept[1]
    else:
        codes = AccountCodes(org_id, ids.ids)
    with _codes_lock:
        _known_codes[state][org_id] = ids, codes
    return codes
