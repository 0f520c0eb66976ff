"""Names that are not there: every command says which one was perhaps meant."""

from datetime import UTC, datetime, timedelta

import pytest

from meterlake.cli import run
from tests.homes import HEADER, a_home, configure, csv_row
from tests.integration.pipeline.backfill.test_retract import SUM

DESTINATION = {"name": "Lake", "code": "lake", "destinationType": "LOCAL", "bucketName": "lake"}


@pytest.fixture(scope="module")
def small_home(tmp_path_factory):
    with a_home(tmp_path_factory.mktemp("names")) as home:
        home.clock.time = datetime.now(UTC) - timedelta(hours=1)
        configure(home.organization, aggregations=[SUM], exportDestinations=[DESTINATION])
        home.ingest("usage.csv", HEADER + csv_row("a", 1.5) + csv_row("b", "x"))
        # A meter that nobody ever configured.
        home.ingest("strange.csv", HEADER + csv_row("c", meter="bandwidth"))
        [[identity]] = home.query("SELECT identity FROM lake.source WHERE name = 'usage.csv'")
        every = ["--every", "day", "--period", "yesterday"]
        at = ["--home", str(home.stores.home)]
        create = ["export", "schedules", "create", "usage", "nightly", *every]
        assert run([*create, *at]) == 0
        return home.stores.home, identity[:12]


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("export usage --meter egres", "egress"),
        ("export usage --account amce", "acme"),
        ("export usage --destination lak", "lake"),
        ("export usage --filter egress.regoin=eu", "egress.region"),
        ("export usage --aggregate egres.gb:SUM", "egress.gb"),
        ("export usage --type measurement", "measurements"),
        ("export operational --type bill", "bills"),
        ("export usage --period yesteday", "yesterday"),
        ("export schedules run nihgtly", "nightly"),
        ("export schedules update nigthly --name x", "nightly"),
        ("export schedules disable night", "nightly"),
        ("export jobs list --schedule nightl", "nightly"),
        ("export destinations check lakes", "lake"),
        ("bill --month 2026-09 --account amce", "acme"),
        ("receipts show usage.csv", "{source}"),
        ("rejected show {typo}:3", "{source}:3"),
        ("backfill start --mode re-derive --meter egres --reason why", "egress"),
        ("backfill start --mode retract --source usage.cvs --reason why", "usage.csv"),
        ("status --org smple", "sample"),
        ("rejected list --meter egres", "egress"),
        ("rejected list --meter bandwith", "bandwidth"),
        ("rejected list --reason InvalidNumbr", "InvalidNumber"),
        ("rejected list --source usage.cvs", "usage.csv"),
        ("rejected requeue --meter egres", "egress"),
        ("rejected export {folder}/x.csv --meter egres", "egress"),
        ("receipts list --name usage.cvs", "usage.csv"),
        ("events list --name configuration.metr.created", "configuration.meter.created"),
        ("events list --type IngestValidationFailur", "IngestValidationFailure"),
        ("explain quantity acme gb_smu 2026-09", "gb_sum"),
    ],
)
def test_the_nearest_name_is_suggested(small_home, command, meant, tmp_path, capsys):
    home, source = small_home
    meant = meant.format(source=source)
    typo = source[:-1] + "0f"[source.endswith("0")]
    command = command.format(typo=typo, folder=tmp_path)

    assert run([*command.split(), "--home", str(home)]) == 1

    assert f"did you mean {meant!r}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "rows"),
    [
        ("rejected list --meter bandwidth", 1),
        # What is there, but not among the rows that are asked for, is no mistake.
        ("rejected list --meter egress --reason InvalidUid", 0),
        ("rejected list --source usage.csv --uid a", 0),
        ("receipts list --name usage.csv --status failed", 0),
        ("events list --name configuration.meter.deleted", 0),
    ],
)
def test_what_is_known_is_listed_however_few_there_are(small_home, command, rows, capsys):
    assert run([*command.split(), "--json", "--home", str(small_home[0])]) == 0

    assert len(capsys.readouterr().out.splitlines()) == rows


@pytest.mark.parametrize("command", ["export usage --meter zzz", "export schedules run q"])
def test_what_is_like_nothing_gets_no_suggestion(small_home, command, capsys):
    assert run([*command.split(), "--home", str(small_home[0])]) == 1

    assert "did you mean" not in capsys.readouterr().err


def test_a_file_beside_it_is_suggested(small_home, tmp_path, capsys):
    (tmp_path / "october.csv").write_text(HEADER)

    assert run(["ingest", str(tmp_path / "octobr.csv"), "--home", str(small_home[0])]) == 1

    assert f"did you mean {str(tmp_path / 'october.csv')!r}?" in capsys.readouterr().err
