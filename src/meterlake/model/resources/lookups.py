"""Lookup tables, their revisions, and what meterlake keeps of these."""

from typing import Final

from meterlake.model.catalog.lookups import (
    LookupTable,
    LookupTableRevision,
    LookupTableRevisionState,
)
from meterlake.model.resources.resource import CODES, IDS, Resource
from meterlake.model.rules.catalog.derived import calculations_keep_columns, looked_up_code_stays
from meterlake.model.rules.lookups import only_drafts_change, revision_state, schema_fits

# Neither in configuration files nor an operation of the API: the status has operations of its own.
STATE: Final = "state"

ROWS: Final = (
    Resource(
        name="lookupTables",
        path="lookuptables",
        entity=LookupTable,
        rules=(looked_up_code_stays,),
        filters=(CODES,),
        page_max=200,
        schema="LookupTable",
        feature="beta",
        permission="lookuptable",
        operations={"list": "ListLookupTable"},
    ),
    Resource(
        name="lookupTableRevisions",
        path="lookuptables/{lookupTableId}/revisions",
        entity=LookupTableRevision,
        refs={"lookup_table_id": LookupTable},
        key=("lookup_table_id", "name"),
        rules=(schema_fits, only_drafts_change, calculations_keep_columns),
        computed=revision_state,
        filters=(IDS,),
        page_max=200,
        schema="LookupTableRevision",
        feature="beta",
        permission="lookuptablerevision",
        frozen=("lookup_table_id",),
        operations={
            "create": "CreateLookupTableRevision",
            "list": "ListLookupTableRevision",
            "update": "UpdateLookupTableRevision",
        },
    ),
    Resource(
        name="lookupTableRevisionStates",
        path="lookuptablerevisionstates",
        entity=LookupTableRevisionState,
        refs={"lookup_table_id": LookupTable, "revision_id": LookupTableRevision},
        area=STATE,
        verbs=frozenset(),
        schema="LookupTableRevisionState",
        feature="beta",
        permission="lookuptablerevision",
    ),
)
