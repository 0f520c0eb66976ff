"""What a Prefect server of a home is told."""

from pathlib import Path

import pytest

from flows.server import server_environment


def test_states_of_tasks_are_written_many_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from prefect.settings import Settings

    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    for name, value in server_environment(tmp_path, 4200, {}).items():
        if name.startswith("PREFECT_SERVER_SERVICES_"):
            monkeypatch.setenv(name, value)

    services = Settings().server.services

    # As Prefect reads them: a newer version may call them otherwise.
    assert services.task_run_recorder.batch_size > 1
    assert services.task_run_recorder.flush_interval <= 1
    assert services.event_persister.batch_size > 1
