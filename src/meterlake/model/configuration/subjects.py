"""SUBJECTS: what the configuration and the API are about; the first segment of a path decides."""

from typing import Final, NamedTuple


class Subject(NamedTuple):
    """What entities and operations have in common.

    Attributes:
        name: The heading in the reference, the tag in the API's document.
        about: What it is, in a sentence or two.
        segments: The first segments of the paths of its operations.
    """

    name: str
    about: str
    segments: tuple[str, ...]


SUBJECTS: Final = (
    Subject(
        "Organization",
        "Settings that bills depend on, currencies, custom fields, and the lists that people pick from.",
        (
            *("organizationconfig", "customfields", "billconfig", "features", "picklists"),
            *("configuration", "sample"),
        ),
    ),
    Subject(
        "Catalog",
        "What is measured: products, meters with their fields, and how usage becomes quantities.",
        ("products", "metergroups", "meters", "aggregations", "compoundaggregations"),
    ),
    Subject(
        "Lookup tables",
        "Values by key that calculations of meters read, in revisions.",
        ("lookuptables",),
    ),
    Subject(
        "Plans and prices",
        "What usage costs: templates, plans, groups of plans, and the prices of quantities and counters.",
        (
            *("plantemplates", "plans", "plangroups", "plangrouplinks", "pricings"),
            *("counters", "counterpricings", "changeproposals"),
        ),
    ),
    Subject(
        "Accounts",
        "End customers, their contracts, the plans that they are on, and what they have a number of.",
        ("accounts", "contracts", "accountplans", "counteradjustments", "customerpages"),
    ),
    Subject(
        "Balances, commitments and charges",
        "Money that accounts paid ahead or agreed to pay, and single charges.",
        ("balances", "commitments", "charges"),
    ),
    Subject(
        "Measurements",
        "What comes in: batches and files of measurements, what was rejected, and receipts.",
        ("measurements", "fileuploads", "uploads"),
    ),
    Subject("Backfills", "Corrections of what came in and was computed.", ("backfills",)),
    Subject(
        "Usage",
        "Questions about usage, bills and commitments: the Data Explorer and saved queries.",
        ("usage", "dataexplorer"),
    ),
    Subject(
        "Bills",
        "Bills, their lines, the jobs that make them, and the closing of months.",
        ("bills", "billjobs", "lineitems", "lateusage", "closings", "revenue", "ledger"),
    ),
    Subject(
        "Statements",
        "What usage a bill is made of: definitions, and the jobs that write statements.",
        ("statementdefinitions", "statementjobs"),
    ),
    Subject(
        "Data exports",
        "Measurements and entities as files: schedules, destinations, jobs, downloads.",
        ("dataexports", "downloads"),
    ),
    Subject(
        "Events and notifications",
        "What happened, who is told of it, and events by the calendar.",
        ("events", "notifications", "scheduledevents"),
    ),
    Subject(
        "Integrations",
        "Other systems: webhooks, what is handed over, and what entities are called there.",
        (
            *("integrationconfigs", "integrationdestinations", "integrationruns"),
            *("externalmappings", "externalmappingconfiguration"),
        ),
    ),
    Subject(
        "Runs",
        "The jobs of all kinds: how far each is, how it ended, cancelled and repeated.",
        ("runs",),
    ),
    Subject(
        "Users and permissions",
        "Who may do what: people, service users with access keys, policies, groups of resources, tokens.",
        (
            *("users", "invitations", "serviceusers", "permissionpolicies", "resourcegroups"),
            *("support", "oauth", ".well-known", "auditlog"),
        ),
    ),
    Subject(
        "Server", "Whether the server runs, and how it does.", ("healthz", "readyz", "metrics")
    ),
)

_BY_SEGMENT: Final = {segment: each for each in SUBJECTS for segment in each.segments}


def subject_of(path: str) -> Subject | None:
    """What a path is about, without what stands before its first segment of ours; None if unknown."""
    return _BY_SEGMENT.get(path.strip("/").partition("/")[0])
