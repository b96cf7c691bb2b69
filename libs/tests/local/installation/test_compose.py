"""docker-compose.yml and what it runs first."""

import asyncio
import functools
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from e2e.api_server import serving
from kai.kube import resources
from kai.kube.client import KubeClient
from kai.model.documents import load_written
from kai.runtime import ServiceSettings, certificates
from kai_local.apiserver.access import files
from kai_local.installation import compose
from kai_local.processes.ports import free_ports

ROOT = Path(__file__).resolve().parents[4]
COMPOSE = load_written((ROOT / "docker-compose.yml").read_text())
SERVICES = {
    name: service["command"]
    for name, service in COMPOSE["services"].items()
    if service["command"][2].startswith("kai_") and not service["command"][2].startswith("kai_local.")
}


# --- the file ----------------------------------------------------------------------------------
def test_all_services_are_there_beside_redis_and_the_embedded_cluster():
    assert SERVICES.keys() == {
        "admission",
        "binder",
        "pod-grouper",
        "podgroup-controller",
        "queue-controller",
        "scheduler",
        "insight",
    }
    assert COMPOSE["services"].keys() - SERVICES.keys() == {
        "redis",
        "apiserver",
        "nodes",
        "workload-controllers",
        "prepare",
    }


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_every_container_is_restricted(name):
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["user"] == "${KAI_USER:-10000:10000}"
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_the_cluster_in_a_box_is_only_in_the_image_of_those_who_are_of_it(name):
    service = COMPOSE["services"][name]
    if service["command"][2].startswith("kai_local."):
        assert service["image"] == "${KAI_LOCAL_IMAGE:-kai-scheduler-local:dev}"
    else:
        assert service["image"] == "${KAI_IMAGE:-kai-scheduler:dev}"


def test_each_image_is_built_once_whatever_the_profile():
    built = {}
    for service in COMPOSE["services"].values():
        if "build" in service:
            assert service["image"] not in built
            assert "profiles" not in service
            built[service["image"]] = service["build"]["target"]
    assert built == {
        "${KAI_IMAGE:-kai-scheduler:dev}": "services",
        "${KAI_LOCAL_IMAGE:-kai-scheduler-local:dev}": "local",
    }


@pytest.mark.parametrize("name", sorted(COMPOSE["services"].keys() - {"prepare"}))
def test_everything_that_stays_is_checked(name):
    assert COMPOSE["services"][name]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", SERVICES)
def test_services_understand_the_flags_that_they_are_given(name):
    python, dash_m, module, *flags = SERVICES[name]
    assert (python, dash_m) == ("python", "-m")
    path = f"{module}.settings"
    (settings,) = (
        value
        for value in vars(importlib.import_module(path)).values()
        if isinstance(value, type) and issubclass(value, ServiceSettings) and value.__module__ == path
    )
    settings.parse(flags)


def test_any_number_of_binders_can_run():
    assert not {"container_name", "ports"} & COMPOSE["services"]["binder"].keys()


def test_ports_are_for_this_machine_alone():
    for service in COMPOSE["services"].values():
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")


def test_redis_has_a_password_that_only_those_can_read_who_use_it():
    redis = COMPOSE["services"]["redis"]
    assert redis["command"][:3] == ["python", "-m", "kai.session"]
    assert "--make-password" in redis["command"]
    path = redis["command"][redis["command"].index("--password-file") + 1]
    readers = {
        name
        for name, service in COMPOSE["services"].items()
        if any(volume.startswith("redis:") for volume in service.get("volumes", ()))
    }
    assert readers == {"redis", "scheduler", "queue-controller"}
    for name in SERVICES:
        assert COMPOSE["services"][name]["environment"]["KAI_REDIS_PASSWORD_FILE"] == path
    # No secret is written down: neither in the file nor in the defaults of its variables.
    text = (ROOT / "docker-compose.yml").read_text() + (ROOT / ".env").read_text()
    assert "requirepass" not in text
    assert "redis://:" not in text


def test_only_the_embedded_cluster_and_the_past_belong_to_profiles():
    profiles = {name: service.get("profiles") for name, service in COMPOSE["services"].items()}
    assert {name: p for name, p in profiles.items() if p} == {
        **{name: ["embedded"] for name in ("apiserver", "nodes", "workload-controllers")},
        "insight": ["history"],
    }
    assert (ROOT / ".env").read_text().splitlines()[-1] == "COMPOSE_PROFILES=embedded"


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_nothing_depends_on_what_a_profile_leaves_out(name):
    services = COMPOSE["services"]
    own = services[name].get("profiles")
    assert all(
        services[other].get("profiles") in (None, own) for other in services[name].get("depends_on", ())
    )


def test_simulated_nodes_and_controllers_never_see_the_kubeconfig_of_another_cluster():
    box = ("apiserver", "nodes", "workload-controllers")
    for name, service in COMPOSE["services"].items():
        volumes = {volume.partition(":")[0] for volume in service.get("volumes", ())}
        assert ("embedded" in volumes) == (name in (*box, "prepare"))
        assert "cluster" not in volumes or name not in box
        if name in box:
            assert "/cluster" not in " ".join(service["command"])


# --- preparation -------------------------------------------------------------------------------
@pytest.fixture
def embedded(tmp_path):
    """The folder of the embedded API server, beside the others that `prepare` writes into."""
    for name in ("embedded", "cluster", "certificates"):
        (tmp_path / name).mkdir()
    return tmp_path / "embedded"


def prepare(folder, *flags):
    command = [sys.executable, "-m", "kai_local.installation.compose"]
    command += [f"--{name}={folder / name}" for name in ("embedded", "cluster", "certificates")]
    return subprocess.run([*command, *flags], capture_output=True, text=True, check=False)


@pytest.mark.integration
async def test_an_embedded_cluster_is_made_ready_for_the_services(tmp_path, embedded):
    (port,) = free_ports(1)
    with serving(embedded, f"--listen=127.0.0.1:{port}"):
        services = "--webhooks=admission,queue-controller"
        for _ in range(2):  # a second time changes nothing
            result = await asyncio.to_thread(prepare, tmp_path, services, f"--host-port={port}")
            assert result.returncode == 0, result.stderr
        async with KubeClient.connect(str(embedded / "host.kubeconfig"), user_agent="test") as client:
            queues = await client.list(resources.QUEUES)
            webhooks = [
                webhook
                for res in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
                for configuration in await client.list(res)
                for webhook in configuration["webhooks"]
            ]
    assert {queue["metadata"]["name"] for queue in queues} == {"default-parent-queue", "default-queue"}
    urls = {webhook["clientConfig"]["url"] for webhook in webhooks}
    assert urls == {
        "https://admission:9443/mutate--v1-pod",
        "https://admission:9443/validate--v1-pod",
        "https://admission:9443/warn",
        "https://admission:9443/validate-kai-scheduler-v1alpha1-topology",
        "https://queue-controller:9443/validate-scheduling-run-ai-v2-queue",
    }
    assert (tmp_path / "certificates" / "tls.crt").exists()
    read_by_services = tmp_path / "cluster" / "kubeconfig"
    assert read_by_services.read_bytes() == (embedded / "kubeconfig").read_bytes()
    assert read_by_services.stat().st_mode & 0o777 == 0o600


@pytest.mark.integration
async def test_a_kubeconfig_of_yesterday_is_not_the_end(tmp_path, embedded):
    """The volume outlives the API server, which comes up with another authority while we look."""
    with serving(embedded):
        pass
    preparing = asyncio.get_running_loop().run_in_executor(None, prepare, tmp_path)
    with serving(embedded):
        result = await preparing
        assert result.returncode == 0, result.stderr


@pytest.mark.integration
async def test_an_existing_cluster_gets_nothing_but_readers(tmp_path, embedded):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with serving(elsewhere):
        existing = f"--existing={elsewhere / 'kubeconfig'}"
        result = await asyncio.to_thread(prepare, tmp_path, "--profiles=existing", existing)
        assert result.returncode == 0, result.stderr

        # Tried with the embedded cluster next, which is late: nothing is put into the one of before.
        flags = "--webhooks=admission"
        preparing = asyncio.get_running_loop().run_in_executor(None, prepare, tmp_path, flags)
        with serving(embedded):
            result = await preparing
            assert result.returncode == 0, result.stderr

        async with KubeClient.connect(str(elsewhere / "kubeconfig"), user_agent="test") as client:
            assert not await client.list(resources.CRDS)
            assert not await client.list(resources.MUTATING_WEBHOOKS)
            assert not await client.list(resources.VALIDATING_WEBHOOKS)


@pytest.fixture
def another_user():
    """A folder of root's that others may look into, while we are one of those."""
    if os.geteuid():
        pytest.skip("only root can be somebody else")
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name), functools.partial(os.seteuid, 65534)
        os.seteuid(0)


def test_volumes_that_another_user_has_filled_are_told_with_the_remedy(another_user, monkeypatch):
    volumes, become = another_user
    (volumes / "cluster").mkdir()
    (volumes / "cluster").chmod(0o1777)
    (volumes / "cluster" / "kubeconfig").write_text("root's")
    (volumes / "existing").write_text("clusters: []")
    certificates.ensure(volumes / "certificates", ["localhost"])
    flags = [f"--{name}={volumes / name}" for name in ("embedded", "cluster", "certificates", "existing")]
    monkeypatch.setattr(sys, "argv", ["compose", *flags, "--profiles=existing"])
    become()
    with pytest.raises(SystemExit) as ended:
        compose.main()
    assert str(ended.value).startswith(f"{volumes}/certificates/")
    assert "run with the KAI_USER that the volumes were made with" in str(ended.value)


def test_what_is_written_in_vain_leaves_nothing(tmp_path):
    (tmp_path / "kubeconfig").mkdir()
    with pytest.raises(IsADirectoryError):
        files.write_private(tmp_path / "kubeconfig", b"text")
    assert list(tmp_path.iterdir()) == [tmp_path / "kubeconfig"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "name the kubeconfig of a cluster with KAI_KUBECONFIG"),
        ("{", "cannot be read"),
        ("clusters: [{name: a, cluster: {certificate-authority: /ca.crt}}]", "certificate-authority outside"),
        ("users: [{name: a, user: {exec: {command: login}}}]", "kubectl config view --raw --flatten"),
        ("clusters: [a]", "clusters is not a list of named entries"),
        ("users: 5", "users is not a list of named entries"),
        ("users: \ud800", "cannot be read"),
    ],
    ids=["empty", "malformed", "files", "programs", "texts", "a number", "not UTF-8"],
)
def test_a_kubeconfig_that_containers_cannot_use_is_refused_with_the_remedy(tmp_path, content, said):
    path = tmp_path / "kubeconfig"
    path.write_bytes(content.encode(errors="surrogatepass"))
    result = prepare(tmp_path, "--profiles=existing", f"--existing={path}")
    assert result.returncode == 1
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


# --- the images --------------------------------------------------------------------------------
def pins(path):
    return set(path.read_text().split("\n"))


@dataclass
class Stage:
    """One stage of the Dockerfile: what it begins with, and its instructions."""

    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)


def stages():
    """Stages by name, in their order; continued lines are one, comments none."""
    found = {}
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    for line in text.replace("\\\n", " ").splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = Stage(base)
        elif found and word:
            found[name].instructions.append((word, rest.strip()))
    return found


def in_image(target):
    """What of the build's context is copied into an image, or into the stages that it is made of."""
    known, copied, todo = stages(), set(), [target]
    while todo:
        if (stage := known.get(todo.pop())) is None:
            continue  # the base
        todo.append(stage.base)
        for word, rest in stage.instructions:
            if word == "COPY" and rest.startswith("--from="):
                todo.append(rest.split()[0].removeprefix("--from="))
            elif word in ("COPY", "ADD"):
                copied |= {source.rstrip("/") for source in rest.split()[:-1]}
    return copied


def has_box(paths):
    box = ROOT / "libs/kai_local"
    return any(box.is_relative_to(path) or path.is_relative_to(box) for path in (ROOT / p for p in paths))


def test_the_image_of_the_services_has_no_cluster_in_a_box():
    services = in_image("services")
    assert {"libs/kai", "services", "requirements-image.lock"} <= services
    assert not has_box(services)
    assert "requirements-local.lock" not in services
    box = in_image("local")
    assert has_box(box)
    assert box > services


def test_what_is_built_where_no_target_is_named_is_the_image_of_the_services():
    assert list(stages())[-1] == "services"


def test_images_have_the_versions_that_are_tested():
    tested, box, image = (pins(ROOT / f"requirements{kind}.lock") for kind in ("", "-local", "-image"))
    remedy = "make the lock files of the images anew, see docs/docker.md"
    assert not box - tested, remedy
    assert not image - box, remedy


def test_what_only_a_cluster_in_a_box_needs_is_not_in_the_image_of_the_services():
    assert "kubernetes-validate==" in (ROOT / "requirements-local.lock").read_text()
    assert "kubernetes-validate==" not in (ROOT / "requirements-image.lock").read_text()


def test_the_context_of_the_build_holds_what_the_dockerfile_copies():
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    copied = in_image("services") | in_image("local")
    assert copied
    assert {path for path in copied if not any(Path(path).is_relative_to(each) for each in allowed)} == set()
