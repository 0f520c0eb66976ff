"""`meterlake config`: what is wrong is told by file and line, what is left out can be deleted."""

import io
import json

import pytest

from meterlake.cli import run

CATALOG = """\
products:
  - code: cloud
    name: Cloud
  - code: shop
    name: Shop
meterGroups:
  - name: Traffic
"""
WRONG = """\
products:
  - code: cloud
    nmae: Cloud
meters:
  - code: egress
    name: Egress
    dataFields:
      - category: MEASURE
        code: gb
        name: Sent
        uint: GB
      - category: SIZE
        code: 1gb
        name: Sent
    derivedFields: []
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "home"
    assert run(["init", "--name", "Acme", "--home", str(path)]) == 0
    return path


@pytest.fixture
def config(home, tmp_path, monkeypatch, capsys):
    """Run `meterlake config`: files by name, then the code and what was printed."""
    monkeypatch.chdir(tmp_path)

    def run_it(*arguments, **files):
        for name, text in files.items():
            suffix = "json" if text.startswith(("{", "[", "\t")) else "yaml"
            (tmp_path / f"{name}.{suffix}").write_text(text)
        capsys.readouterr()
        code = run(["config", *arguments, "--home", str(home)])
        return code, *capsys.readouterr()

    return run_it


def exported(config):
    return json.loads(config("export", "--json")[1])


def test_every_problem_has_a_line_of_its_own_with_file_and_line(config):
    code, out, err = config(
        "apply", "a.yaml", "b.json", a=WRONG, b='{\n\t"products": [\n\t\t{"code": 5}]}'
    )

    assert (code, out) == (1, "")
    *problems, summary = err.splitlines()
    assert summary == "meterlake: 7 problems; nothing was changed"
    assert [each.partition(" is not")[0] for each in problems] == [
        "a.yaml:2: products[0].name is required",
        "a.yaml:3: products[0].nmae is unknown: did you mean 'name'?",
        "a.yaml:11: meters[0].dataFields[0].uint is unknown: did you mean 'unit'?",
        "a.yaml:12: meters[0].dataFields[1].category: 'SIZE'",
        "a.yaml:13: meters[0].dataFields[1].code: '1gb'",
        "b.json:3: products[0].name is required",
        "b.json:3: products[0].code: 5",
    ]


def test_problems_are_one_object_for_programs(config):
    code, _, err = config(
        "apply", "a.yaml", "--json", a="accounts:\n  - code: x\n    colour: red\n"
    )

    error = json.loads(err)["error"]
    assert (code, error["code"]) == (1, "InvalidConfiguration")
    assert [(each["file"], each["line"]) for each in error["problems"]] == [
        ("a.yaml", 2),
        ("a.yaml", 2),
        ("a.yaml", 3),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [\n", "a.yaml:2: column 1: "),
        ("acounts: []\n", "a.yaml:1: acounts is unknown: did you mean 'accounts'?"),
        ("accounts: 5\n", "a.yaml:1: accounts: 5 is not allowed: it must be a list"),
        ("x: 1\nx: 2\n", "a.yaml:2: column 1: the key 'x' stands there twice"),
        ("# Names\n\n- a\n", "a.yaml:3: ['a'] is not allowed: it must be a map such as"),
        ("organizationConfig:\n  timezone: Mars\n  daysBeforeBillDue: 1\n", "a.yaml:2: "),
    ],
)
def test_one_problem_has_its_line_too(config, text, problem):
    code, _, err = config("apply", "a.yaml", a=text)

    assert code == 1
    assert err.startswith(problem)
    assert err.endswith("meterlake: 1 problem; nothing was changed\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"x":\n 1,\n "x": 2}', "b.json:3: it is not JSON: the key 'x' stands there twice"),
        ('{"x":\n 1,,', "b.json:2: column 4: it is not JSON: "),
        ("[]", "b.json:1: [] is not allowed: it must be a map such as"),
    ],
)
def test_of_json_too(config, text, problem):
    assert config("apply", "b.json", b=text)[2].startswith(problem)


def test_all_unreadable_files_are_told(config):
    _, _, err = config("apply", ".", a="a: @", b="{,}")

    assert [line.partition(" ")[0] for line in err.splitlines()[:2]] == ["a.yaml:1:", "b.json:1:"]


@pytest.mark.long
def test_a_code_that_is_taken_has_its_line(config):
    account = "accounts:\n  - {{code: {}, name: A, emailAddress: a@b.de{}}}\n"
    for code in "ab":
        assert config("apply", "a.yaml", a=account.format(code, ""))[0] == 0
    [change] = config("apply", "a.yaml", "--json", a=account.format("a", ""))[1].splitlines()
    taken = account.format("b", f", id: {json.loads(change)['id']}")

    code, _, err = config("apply", "b.yaml", b=taken)

    assert code == 1
    assert err.startswith("b.yaml:2: accounts[0]: Account code 'b' belongs to ")
    assert config("apply", "c.yaml", "--prune", "--yes", c="accounts: []")[0] == 0


def test_names_that_mean_nothing_can_be_allowed(config):
    text = "meterGroups:\n  - {name: Traffic, colour: red}\n"

    assert config("apply", "a.yaml", a=text)[0] == 1
    code, out, _ = config("apply", "a.yaml", "--allow-unknown", a=text)

    assert code == 0
    assert "a.yaml: meterGroups[0]: ignored: colour" in out


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.long
def test_what_files_leave_out_is_shown_asked_about_and_deleted(config, monkeypatch):
    assert config("apply", "a.yaml", a=CATALOG)[0] == 0
    less = CATALOG.replace("  - code: shop\n    name: Shop\n", "").replace("Traffic", "Data")
    before = exported(config)

    code, out, _ = config("apply", "a.yaml", "--prune", "--dry-run", a=less)
    assert code == 0
    assert "2 deleted (dry run: nothing was written)" in out

    code, _, err = config("apply", "a.yaml", "--prune", a=less)
    assert code == 1
    assert "--yes" in err

    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    code, out, _ = config("apply", "a.yaml", "--prune", a=less)
    assert code == 1
    assert "Delete these 2? [y/N]" in out
    assert out.splitlines()[-1].endswith("Nothing was changed.")
    assert exported(config) == before

    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    code, out, _ = config("apply", "a.yaml", "--prune", a=less)
    assert code == 0
    assert ["deleted" in line for line in out.splitlines() if "shop" in line] == [True, True]
    found = exported(config)
    assert found["products"] == [{"code": "cloud", "name": "Cloud"}]
    assert found["meterGroups"] == [{"name": "Data"}]
    assert {name: found[name] for name in ("currencies", "organizationConfig")} == {
        name: before[name] for name in ("currencies", "organizationConfig")
    }
    assert config("apply", "a.yaml", "--prune", a=less)[0] == 0


@pytest.mark.long
def test_what_is_in_use_is_not_deleted_and_nothing_happens(config):
    meters = "meters:\n  - code: m\n    name: M\n    productId: cloud\n    dataFields:\n      - {category: MEASURE, code: v, name: V}\n    derivedFields: []\n"
    assert config("apply", "a.yaml", a=CATALOG + meters)[0] == 0
    before = exported(config)

    code, _, err = config(
        "apply",
        "a.yaml",
        "--prune",
        "--yes",
        a="products: [{code: new, name: New}]\ncurrencies: []\n",
    )

    assert code == 1
    assert "Product 'cloud' is still referenced by Meter 'm'" in err
    assert "Currency 'USD' is still referenced by OrganizationConfig" in err
    assert exported(config) == before


@pytest.mark.long
def test_an_export_of_an_empty_home_that_an_export_was_applied_to_is_the_same(
    tmp_path, capsys, monkeypatch
):
    import sample_data

    monkeypatch.chdir(tmp_path)
    texts = []
    (tmp_path / "export.yaml").write_text("")
    for number, source in enumerate((str(sample_data.CONFIGURATION), "export.yaml")):
        at = ["--home", str(tmp_path / f"home-{number}")]
        assert run(["init", "--name", "Acme", *at]) == 0
        assert run(["config", "apply", source, *at]) == 0
        capsys.readouterr()
        assert run(["config", "export", *at]) == 0
        texts.append(capsys.readouterr().out)
        (tmp_path / "export.yaml").write_text(texts[-1])

    assert texts[0] == texts[1]
    assert "id:" not in texts[0]


def test_the_schema_is_printed_without_a_home(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    assert run(["config", "schema"]) == 0

    schema = json.loads(capsys.readouterr().out)
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert schema["properties"]["plans"]["items"] == {"$ref": "#/definitions/Plan"}
    assert list(tmp_path.iterdir()) == []


def test_a_file_may_name_its_schema(config):
    code, out, _ = config(
        "apply", "a.json", a='{"$schema": "meterlake.schema.json", "accounts": []}'
    )

    assert (code, out) == (0, "no entities\n")


@pytest.mark.long
def test_the_examples_of_the_reference_can_be_applied(tmp_path, capsys):
    from meterlake.model.configuration.examples import EXAMPLES
    from meterlake.model.resources import CONFIG, RESOURCES
    from meterlake.model.values.documents import to_yaml
    from meterlake.model.values.wire import to_plain

    kinds = [each for each in RESOURCES if each.area == CONFIG]
    content = {e.name: EXAMPLES[e.name] if e.singleton else [EXAMPLES[e.name]] for e in kinds}
    (tmp_path / "examples.yaml").write_text(to_yaml(to_plain(content)))
    at = ["--home", str(tmp_path / "home")]
    assert run(["init", "--name", "Acme", *at]) == 0

    assert run(["config", "apply", str(tmp_path / "examples.yaml"), *at]) == 0

    assert run(["config", "export", "--json", *at]) == 0
    exported = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(exported) == set(content)


@pytest.mark.long
def test_meters_and_accounts_with_measurements_are_not_pruned(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(
        "meters:\n"
        "  - {code: m, name: M, dataFields: [{category: MEASURE, code: v, name: V}], derivedFields: []}\n"
        "accounts:\n"
        "  - {code: used, name: U, emailAddress: a@b.example}\n"
        "  - {code: idle, name: I, emailAddress: a@b.example}\n"
    )
    (tmp_path / "m.csv").write_text(
        "meter,account,uid,ts,measure.v\nm,used,1,2026-01-01T00:00:00Z,1\n"
    )
    at = ["--home", str(tmp_path / "home")]
    assert run(["init", "--name", "Acme", *at]) == 0
    assert run(["config", "apply", "a.yaml", *at]) == 0
    assert run(["ingest", "m.csv", *at]) == 0
    (tmp_path / "none.yaml").write_text("meters: []\naccounts: []\n")
    (tmp_path / "idle.yaml").write_text(
        "accounts: [{code: used, name: U, emailAddress: a@b.example}]"
    )
    capsys.readouterr()

    assert run(["config", "apply", "none.yaml", "--prune", "--yes", *at]) == 1

    assert capsys.readouterr().err.splitlines() == [
        "Meter 'm' is still referenced by measurements, which has to go or to change first",
        "Account 'used' is still referenced by measurements, which has to go or to change first",
        "meterlake: 2 problems; nothing was changed",
    ]
    assert run(["config", "apply", "idle.yaml", "--prune", "--yes", *at]) == 0
    assert "1 deleted" in capsys.readouterr().out
