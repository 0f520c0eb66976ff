"""What `deploy/` tells Prefect is what the installed Prefect knows."""

import re
import subprocess
import sys

import pytest

from tests.unit.test_deploy import DEPLOY, lines_of


def test_variables_are_settings_of_prefect() -> None:
    from prefect.settings import Settings
    from prefect.settings.legacy import _get_valid_setting_names

    text = "\n".join(path.read_text() for path in DEPLOY.rglob("*") if path.is_file())
    # In a comment or a message there may be others, such as what Kubernetes makes of a Service.
    named = set(re.findall(r"^ *(?:- name: )?(PREFECT_[A-Z_]+)(?:[:=]|$)", text, re.MULTILINE))

    assert len(named) >= 7
    assert named <= _get_valid_setting_names(Settings)


@pytest.mark.slow
@pytest.mark.parametrize("line", lines_of("prefect"), ids=" ".join)
@pytest.mark.usefixtures("prefect")
def test_commands_are_those_of_prefect(line: list[str]) -> None:
    words = [word for word in line if word.islower() and word.isalpha()][:2]
    done = subprocess.run(
        [sys.executable, "-m", "prefect", *words, "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    options = {word for word in line if word.startswith("--")}
    assert [each for each in options if each not in done.stdout] == []
