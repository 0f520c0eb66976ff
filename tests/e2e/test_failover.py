"""A primary of PostgreSQL is killed while files are ingested, and its standby is promoted."""

import threading
import time

import pytest

from meterlake.model.errors import MeterlakeError
from meterlake.pipeline.home.initialize import initialize
from meterlake.stores import open_stores
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row, settings
from tests.organizations import Clock
from tests.postgres import missing, postgres_pair

pytestmark = pytest.mark.slow
FILES = 12
PATIENCE_S = 120


@pytest.fixture
def pair():
    reason = missing()
    if reason:
        pytest.skip(reason)
    with postgres_pair() as found:
        yield found


class Writer:
    """Ingests files, each again until it is acknowledged."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.acknowledged: list[str] = []
        self.refused: list[str] = []

    def run(self, until: float) -> None:
        while len(self.acknowledged) < 2 * FILES and time.monotonic() < until:
            number = len(self.acknowledged)
            rows = "".join(csv_row(f"u{number}-{row}") for row in range(3))
            try:
                self.home.ingest(f"{number}.csv", HEADER + rows)
            except MeterlakeError as error:
                self.refused.append(str(error))
                time.sleep(0.2)
            else:
                self.acknowledged += [f"u{number}"]


def test_nothing_acknowledged_is_lost_or_doubled_and_work_goes_on(pair, s3_lakes, tmp_path):
    own = settings(
        tmp_path / "home",
        state=pair.url,
        catalog=pair.url,
        lake="s3://lakes/failover",
        s3_endpoint=s3_lakes.url,
    )
    made = initialize(own, "Sample")
    with open_stores(own) as stores:
        configure(stores, made.org_id, meters=[EGRESS], accounts=ACCOUNTS)
        writer = Writer(Home(stores, made.org_id, Clock()))
        thread = threading.Thread(target=writer.run, args=[time.monotonic() + PATIENCE_S])
        thread.start()
        while len(writer.acknowledged) < FILES // 2:
            time.sleep(0.05)
        pair.primary.kill()
        before = len(writer.acknowledged)
        time.sleep(1)
        pair.standby.promote()
        thread.join()

        assert len(writer.acknowledged) == 2 * FILES > before
        assert writer.refused
        stored = [uid for uid, *_ in writer.home.uids()]
        assert stored == sorted(f"{name}-{row}" for name in writer.acknowledged for row in range(3))
        writer.home.check_rows()
