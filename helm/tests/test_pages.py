"""Values that stand on pages are values of the chart, and come through to Config or shard."""

import json
import re

import pytest
import yaml

from e2e.harness import ROOT
from e2e.page import bodies
from kai.operands import certificates_of, read_config
from kai.operands.certificates import grpc_secret
from kai.wire.permissions import PERMISSIONS

#: Keys of values, of which other YAML on pages has none.
SECTIONS = ("binder", "certificates", "global", "insight", "networkPolicy", "operator", "redis", "scheduler")
PAGES = sorted(page.name for page in (ROOT / "docs").glob("*.md"))
SHOWN = [
    pytest.param(body, id=f"{page}: {', '.join(body)}")
    for page in PAGES
    for body in bodies(page)
    if "kind" not in body and set(body) <= set(SECTIONS)
]
OTHERS = {"contributing.md": 2, "monitoring.md": 1}
CHART = ROOT / "helm" / "kai-scheduler"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
#: The page that tells of fields of a Config, which are called much as values are.
OF_CONFIG = "configuration.md"


def test_all_that_has_no_kind_is_known():
    without = {page: sum("kind" not in body for body in bodies(page)) for page in PAGES}
    assert sum(without.values()) == len(SHOWN) + sum(OTHERS.values())
    assert all(without[page] == count for page, count in OTHERS.items())


@pytest.mark.parametrize("values", SHOWN)
def test_values_on_a_page_change_what_is_installed(helm, values):
    usual = helm.render()
    authority = usual.one("Secret", "kai-admission-webhook-tls-secret")["data"]["ca.crt"]
    text = json.dumps(values).replace("<base64 of ca.crt of the webhooks>", authority)
    assert helm.render(values=json.loads(text)) != usual


# --- names of values and of Deployments in sentences and commands ----------------------------------------
def is_known(name, schema, definitions):
    """Whether a schema has what a path leads to; where any keys may be, it does."""
    for key in name.split("."):
        if "$ref" in schema:
            schema = definitions[schema["$ref"].rpartition("/")[2]]
        known = schema.get("properties", {})
        if key not in known:
            return not known and schema.get("type") == "object" and schema.get("additionalProperties", True)
        schema = known[key]
    return True


def fields_of_config():
    crd = yaml.safe_load((CHART / "crds" / "configs.kai.scheduler.yaml").read_text())
    (version,) = crd["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]


@pytest.mark.parametrize("page", PAGES)
def test_values_named_in_a_sentence_are_values_of_the_chart(page):
    schemas = [SCHEMA] if page != OF_CONFIG else [SCHEMA, fields_of_config()]
    text = (ROOT / "docs" / page).read_text()
    named = {
        name
        for name in re.findall(r"`([A-Za-z]+(?:\.[A-Za-z0-9_-]+)+)", text)
        if name.partition(".")[0] in SCHEMA["properties"] and not name.endswith(".svc")
    }
    definitions = SCHEMA["definitions"]
    assert [name for name in named if not any(is_known(name, each, definitions) for each in schemas)] == []


def test_deployments_that_pages_forward_to_are_those_of_the_chart(helm):
    made = helm.render().of("Deployment")
    for page in PAGES:
        named = re.findall(r"port-forward deploy/(\S+)", (ROOT / "docs" / page).read_text())
        assert set(named) <= set(made), page


def table(page, *header) -> list[list[str]]:
    """The cells of the rows of a table on a page."""
    _, _, after = (ROOT / "docs" / page).read_text().partition(f"| {' | '.join(header)} |\n")
    rows, _, _ = after.partition("\n\n")
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows.splitlines()[1:]]


def test_the_page_names_every_certificate_that_whoever_has_their_own_puts_in_place(helm):
    objects = helm.render(values={"insight": {"enabled": True}})
    config = read_config(objects.one("Config", "kai-config"))
    every = certificates_of(config)
    serve = {
        volume["secret"]["secretName"]
        for pod in (each["spec"]["template"]["spec"] for each in objects.of("Deployment").values())
        if "grpc" in [port["name"] for container in pod["containers"] for port in container["ports"]]
        for volume in pod["volumes"]
        if "secret" in volume
    }
    call = {
        grpc_secret(role)
        for method, roles in PERMISSIONS.items()
        if not method.startswith("/grpc.health.")
        for role in roles
    }

    def good_for(secret) -> str:
        if secret not in every["grpc"]:
            return "servers"
        return " and ".join(["servers"] * (secret in serve) + ["clients"] * (secret in call))

    told = table("helm.md", "secret", "certificate for", "good for", "whose")
    found = [(secret, name.replace("<namespace>", config.namespace), use) for secret, name, use, _ in told]
    assert sorted(found) == sorted(
        (secret, name, good_for(secret)) for named in every.values() for secret, name in named.items()
    )
