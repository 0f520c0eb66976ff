"""Each pair of settings of which one needs the other: refused or said where it is broken."""

from pathlib import Path

import pytest

from meterlake.cli.app import run
from meterlake.cli.worker import _check
from meterlake.model.errors import Invalid
from meterlake.settings import Settings, variable
from meterlake.stores.dependent_settings import (
    DEPENDENCIES,
    refuse_broken_promises,
    settings_without_effect,
)
from meterlake.stores.home_settings import agree_on_settings, change, shared_settings
from tests.homes import new_home

HERE = "postgresql://me@here/one"
COPIES = {"segment_copies": "objects", "objects": "s3://far/x"}
BUCKET = {"lake": "s3://far/lakes", "catalog": HERE, "state": HERE, "objects": "s3://far/x"}
LETTERS = {"smtp_url": "smtp://here", "smtp_from": "bills@here", "public_url": "https://here"}
OWN = {"export_credentials": "own"}
# Of each pair what breaks it, and what keeps it.
TRIED = {
    ("segment_copies", "objects"): ({"segment_copies": "objects"}, COPIES),
    ("lake", "catalog"): ({"lake": "s3://far/lakes"}, BUCKET),
    ("smtp_url", "smtp_from"): ({"smtp_url": "smtp://here"}, LETTERS),
    ("segment_copies", "state"): (COPIES, COPIES | {"state": HERE}),
    ("segment_seconds", "segment_copies"): (
        COPIES | {"segment_seconds": 60},
        COPIES | {"segment_seconds": 59},
    ),
    ("segment_lost_seconds", "segment_copies"): (
        {"segment_lost_seconds": 9},
        COPIES | {"segment_lost_seconds": 9},
    ),
    ("lake", "objects"): (BUCKET | {"objects": "/srv/objects"}, BUCKET),
    ("lake", "state"): (BUCKET | {"state": None}, BUCKET),
    ("smtp_url", "public_url"): (LETTERS | {"public_url": None}, LETTERS),
    ("smtp_from", "smtp_url"): ({"smtp_from": "bills@here"}, LETTERS),
    ("upload_bytes", "source_bytes"): (
        {"upload_bytes": 5000, "source_bytes": 4999},
        {"upload_bytes": 5000, "source_bytes": 5000},
    ),
    ("custom_sql_seconds", "custom_sql_run_seconds"): (
        {"custom_sql_seconds": 10, "custom_sql_run_seconds": 9},
        {"custom_sql_seconds": 10, "custom_sql_run_seconds": 10},
    ),
    ("runner_workers", "runner"): (
        {"runner_workers": 3},
        {"runner_workers": 3, "runner": "threads"},
    ),
    ("runner", "state"): (
        {"runner": "dask://scheduler:8786"},
        {"runner": "dask://127.0.0.1:8786"},
    ),
    ("federation_token_file", "export_credentials"): (
        OWN | {"federation_token_file": Path("/token")},
        {"federation_token_file": Path("/token")},
    ),
    **{
        (name, "export_credentials"): (OWN | {name: "http://here"}, {name: "http://here"})
        for name in ("sts_endpoint", "gcs_sts_endpoint")
    },
    **{
        (name, switch): ({name: 7, switch: False}, {name: 7, switch: True})
        for switch, names in (
            ("limit_config", ("config_per_second", "config_per_address")),
            ("limit_ingest", ("ingest_per_second", "ingest_per_address")),
            ("limit_explorer", ("explorer_per_second", "explorer_burst")),
            ("limit_explorer", ("explorer_v2_per_second", "explorer_v2_burst")),
        )
        for name in names
    },
}


def told(home, **values) -> Settings:
    return Settings(_env_file=None, home=home, **values)


def test_every_pair_is_tried():
    pairs = [(each.name, each.needs[0]) for each in DEPENDENCIES]

    assert len(set(pairs)) == len(pairs)
    assert set(TRIED) == set(pairs)
    assert {name for each in DEPENDENCIES for name in (each.name, *each.needs)} <= set(
        Settings.model_fields
    )


@pytest.mark.parametrize("each", DEPENDENCIES, ids=lambda each: f"{each.name}-{each.needs[0]}")
def test_a_promise_that_cannot_be_kept_is_refused_or_said(tmp_path, each):
    broken, kept = TRIED[each.name, each.needs[0]]
    if each.refused:
        with pytest.raises(Invalid) as caught:
            agree_on_settings(told(tmp_path, **broken), lasting=True)
        assert variable(each.name) in str(caught.value)
        assert variable(each.needs[0]) in str(caught.value)
        assert shared_settings(told(tmp_path)) == {}
        # A command starts nevertheless: it acknowledges nothing, and can set things right.
        agree_on_settings(told(tmp_path, **broken))
    else:
        assert each.sentence in settings_without_effect(told(tmp_path, **broken))
        assert variable(each.needs[-1]) in each.sentence
    refuse_broken_promises(told(tmp_path, **kept))
    assert each.sentence not in settings_without_effect(told(tmp_path, **kept))


def test_defaults_promise_nothing_that_they_do_not_keep(tmp_path):
    assert list(settings_without_effect(told(tmp_path))) == []
    refuse_broken_promises(told(tmp_path))


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_copies_on_the_disk_of_the_home_are_refused_wherever_the_folder_is(tmp_path, form):
    for folder in ("home/objects", "beside", "beside/not/there"):
        objects = form.format(tmp_path / folder)
        with pytest.raises(Invalid, match="METERLAKE_OBJECTS"):
            refuse_broken_promises(
                told(tmp_path / "home", segment_copies="objects", objects=objects)
            )


def test_copies_in_a_folder_of_another_file_system_are_taken(tmp_path):
    # Linux has one everywhere, and nothing is written there.
    objects = "/proc/self"
    assert Path(objects).stat().st_dev != tmp_path.stat().st_dev
    refuse_broken_promises(told(tmp_path, segment_copies="objects", objects=objects))


@pytest.mark.parametrize("command", [["serve", "--no-flows"], ["serve", "--api-only"], ["worker"]])
def test_a_server_that_would_lose_what_it_copies_does_not_start(
    tmp_path, monkeypatch, capsys, command
):
    new_home(tmp_path / "home")
    monkeypatch.setenv("METERLAKE_SEGMENT_COPIES", "objects")

    assert run([*command, "--home", str(tmp_path / "home")]) == 1

    error = capsys.readouterr().err
    assert "METERLAKE_SEGMENT_COPIES: 'objects' is not allowed" in error
    assert "s3://" in error
    assert len(error.splitlines()) == 1


def test_a_home_is_not_changed_to_what_no_server_would_start_with(tmp_path):
    home = told(tmp_path)
    with pytest.raises(Invalid, match="METERLAKE_OBJECTS"):
        change(home, "segment_copies", "objects")
    change(home, "objects", "s3://far/x")
    change(home, "segment_copies", "objects")
    with pytest.raises(Invalid, match="METERLAKE_OBJECTS"):
        change(home, "objects", None)
    # What it has nothing to do with is changed, also where a home of before is not right.
    change(home, "snapshot_days", "9")
    assert shared_settings(home) == {
        "objects": "s3://far/x",
        "segment_copies": "objects",
        "snapshot_days": 9,
    }


def test_a_worker_says_at_its_start_which_settings_do_nothing(tmp_path, caplog):
    new_home(tmp_path / "home")

    _check(told(tmp_path / "home", config_per_second=7))

    assert "METERLAKE_LIMIT_CONFIG=true" in caplog.text
