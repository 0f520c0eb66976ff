"""Files are of the format that their names say, or are refused."""

import json

import pytest

from meterlake.cli import run
from tests.bills import a_home_to_bill


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with a_home_to_bill(tmp_path_factory.mktemp("endings")) as opened:
        assert run(["bill", "--month", "2026-09", "--home", str(opened.stores.home)]) == 0
        yield opened


@pytest.fixture
def command(home, capsys, tmp_path):
    """Runs a command that writes a file; its exit code, what it says, and the file."""

    def work(*words, option, name):
        capsys.readouterr()
        file = tmp_path / name
        code = run([*words, option, str(file), "--home", str(home.stores.home)])
        return code, capsys.readouterr().err, file

    return work


@pytest.mark.parametrize(
    ("verb", "name", "begins"),
    [
        ("document", "x.json", b"{"),
        ("document", "x.html", b"<!"),
        ("document", "x.HTM", b"<!"),
        ("statement", "x.csv", b'"'),
        ("statement", "x.json", b"{"),
        ("statement", "x", b"{"),
    ],
)
def test_the_ending_names_the_format(command, verb, name, begins):
    code, err, file = command("bill", verb, "acme", "2026-09", option="--to", name=name)

    assert code == 0, err
    data = file.read_bytes()
    assert data.lstrip(b"\xef\xbb\xbf").startswith(begins) or begins == b'"'
    assert (begins == b"{") == is_json(data)


def is_json(data):
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


@pytest.mark.parametrize(
    ("words", "option", "name", "told"),
    [
        ("bill document acme 2026-09 --format pdf", "--to", "x.json", "its name must end in .pdf"),
        ("bill document acme 2026-09", "--to", "x.docx", ".pdf or .html or .htm or .json"),
        ("bill statement acme 2026-09 --format csv", "--to", "x.json", "its name must end in .csv"),
        ("bill statement acme 2026-09", "--to", "x.pdf", "its name must end in .json or .csv"),
        ("bill explain acme 2026-09", "--html", "x.pdf", "must end in .html or .htm"),
        ("report", "--out", "x.pdf", "must end in .html or .htm"),
        ("sql SELECT(1) --csv", "--out", "x.parquet", "its name must end in .csv"),
        ("sql SELECT(1) --json", "--out", "x.csv", "must end in .json or .ndjson or .jsonl"),
    ],
)
def test_an_ending_that_does_not_fit_is_refused_with_those_that_do(
    command, words, option, name, told
):
    code, err, file = command(*words.split(), option=option, name=name)

    assert code == 1, err
    assert f"{option}: " in err
    assert told in err
    assert not file.exists()
