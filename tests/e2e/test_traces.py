"""Two hours of real calls to language models, as they are: no account and no uid in the files."""

import csv
import shutil
from decimal import Decimal
from pathlib import Path

import pytest

from meterlake.model.catalog.catalog import Aggregation
from meterlake.model.customers.accounts import Account
from meterlake.model.resources.proposal import Document
from meterlake.model.values.documents import parse
from meterlake.model.values.period import Month
from meterlake.pipeline.config.apply_configuration import apply
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.drop import ingest_inbox
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.settings import Settings
from meterlake.stores import open_stores

TRACES = sorted((Path(__file__).parents[3] / "shared" / "data").glob("azure_llm_2023_*.csv"))
pytestmark = pytest.mark.skipif(len(TRACES) != 2, reason="the traces are not beside the project")

CONFIGURATION = b"""
meters:
  - code: llm_calls
    name: Calls of a language model
    dataFields:
      - {category: MEASURE, code: context, name: Tokens read}
      - {category: MEASURE, code: generated, name: Tokens written}
    derivedFields: []
aggregations:
  - {code: calls, name: Calls, meterId: llm_calls, targetField: context, aggregation: COUNT,
     quantityPerUnit: 1, rounding: NONE, unit: call}
  - {code: context, name: Read, meterId: llm_calls, targetField: context, aggregation: SUM,
     quantityPerUnit: 1, rounding: NONE, unit: token}
  - {code: generated, name: Written, meterId: llm_calls, targetField: generated, aggregation: SUM,
     quantityPerUnit: 1, rounding: NONE, unit: token}
  - {code: last, name: Last, meterId: llm_calls, targetField: generated, aggregation: LATEST,
     quantityPerUnit: 1, rounding: NONE, unit: token}
"""
MAPPING = """
files: ["azure_llm_*.csv"]
account: {filename: 'azure_llm_2023_(?P<account>[a-z]+)'}
ts: TIMESTAMP
measurements:
  - meter: llm_calls
    fields: {measure.context: ContextTokens, measure.generated: GeneratedTokens}
"""


def calculated(path: Path) -> dict[str, Decimal]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    # Two calls may share an instant to the microsecond; the uid, the row's number as text, decides.
    last = max(enumerate(rows, 2), key=lambda item: (item[1]["TIMESTAMP"][:26], str(item[0])))[1]
    return {
        "calls": Decimal(len(rows)),
        "context": sum((Decimal(row["ContextTokens"]) for row in rows), Decimal(0)),
        "generated": sum((Decimal(row["GeneratedTokens"]) for row in rows), Decimal(0)),
        "last": Decimal(last["GeneratedTokens"]),
    }


@pytest.mark.long
def test_the_traces_are_taken_in_as_they_are_and_only_once(tmp_path):
    settings = Settings(home=tmp_path / "home", settle_seconds=0)
    made = initialize(settings, "Model Provider")
    with open_stores(settings) as stores:
        organization = stores.organization(made.org_id)
        document = Document("test.yaml", parse("test.yaml", CONFIGURATION))
        apply(stores.state, made.org_id, [document], "test")
        folder = drop_folder(stores, made.org_code)
        (folder.mappings / "azure.yaml").write_text(MAPPING)
        for path in TRACES:
            shutil.copy(path, folder.inbox)
        first = list(ingest_inbox(organization, folder))
        for path in TRACES:
            shutil.copy(path, folder.inbox / path.name.replace(".csv", "-again.csv"))
        again = list(ingest_inbox(organization, folder))
        result = aggregate(organization, Month(2023, 11))
        configuration = organization.configuration()

    assert [receipt.rejected for receipt in first] == [0, 0]
    assert sum(receipt.accepted for receipt in first) == 8_819 + 19_366
    assert [receipt.accepted for receipt in again] == [0, 0]
    assert sum(receipt.repeats for receipt in again) == 8_819 + 19_366
    found: dict[str, dict[str, Decimal]] = {}
    for each in result.quantities:
        account = configuration.get(Account, each.account_id).entity.code
        name = configuration.get(Aggregation, each.aggregation_id).entity.code
        found.setdefault(account, {})[str(name)] = each.value
    assert found == {path.stem.rpartition("_")[2]: calculated(path) for path in TRACES}
