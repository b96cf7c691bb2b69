"""What can be told of a cluster while no scheduler answers."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import deadlines
from e2e.api_server import serving
from kai.kube.client import KubeClient
from kai.kube.resources import CONFIGS, CORE_EVENTS, LEASES, NAMESPACES, POD_GROUPS, PODS, QUEUES, Resource
from kai.model import names, release
from kai.operands.spec.config import CONFIG_NAME
from kai_local.installation.bootstrap import definitions

pytestmark = pytest.mark.integration

A_POD = {
    "metadata": {"name": "p", "annotations": {"pod-group-name": "g"}},
    "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i"}]},
}
#: Runs, and nobody has its group any more.
LEFT = {
    "metadata": {"name": "left", "annotations": {"pod-group-name": "gone"}},
    "spec": {**A_POD["spec"], "nodeName": "n"},
}
UNBOUND = {"type": "PodBound", "status": "False", "reason": "BindingError", "message": "no such volume"}
#: Says that somebody leads who cannot be called: nothing listens there.
GONE = {
    "metadata": {
        "name": names.SCHEDULER_NAME,
        "annotations": {
            names.ENDPOINT_ANNOTATION: "127.0.0.1:1",
            names.EPOCH_ANNOTATION: "1",
            names.VERSION_ANNOTATION: "0.0.7",
        },
    },
    "spec": {"holderIdentity": "killed", "leaseDurationSeconds": 3600},
}
EVICTED = {
    "metadata": {"name": "lost.1"},
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "lost"},
    "reason": "Evict",
    "message": "pod lost was reclaimed for g",
    "lastTimestamp": "2030-01-01T00:00:00Z",
}
GADGET = Resource("example.com", "v1", "gadgets", "Gadget", False)
#: Kinds of others that have the names of ours.
THEIR_JOB = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")
THEIR_GROUP = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
WHY = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node has 9 GPUs"}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An API server with a queue, a pod group and a pod of it that waits."""
    with serving(tmp_path_factory.mktemp("server")) as server:
        asyncio.run(fill(server.kubeconfig))
        yield server.kubeconfig


async def fill(path: Path) -> None:
    async with KubeClient.connect(str(path), user_agent="test") as client:
        crds = await client.discover("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        assert crds
        for definition in definitions():
            await client.create(crds, definition)
        for custom in (GADGET, THEIR_JOB, THEIR_GROUP):
            await client.create(crds, a_definition(custom))
        await client.create(GADGET, {"metadata": {"name": "g1"}, "spec": None})
        await client.create(THEIR_JOB, {"metadata": {"name": "train"}}, namespace="default")
        await client.create(THEIR_GROUP, {"metadata": {"name": "g"}}, namespace="default")
        await client.create(QUEUES, {"metadata": {"name": "q"}, "spec": {"resources": {"gpu": {"quota": 3}}}})
        group = {"metadata": {"name": "g"}, "spec": {"minMember": 1, "queue": "q"}}
        await client.create(POD_GROUPS, group, namespace="default")
        await client.create(PODS, A_POD, namespace="default")
        for namespace in ("team", "killed"):
            await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        await client.create(LEASES, GONE, namespace="killed")
        await client.create(CORE_EVENTS, EVICTED, namespace="default")
        await client.create(PODS, A_POD, namespace="team")
        await client.create(PODS, LEFT, namespace="killed")
        for namespace, conditions in (("default", [WHY]), ("team", [UNBOUND])):
            status = {"status": {"conditions": conditions}}
            await client.patch(PODS, "p", status, namespace=namespace, subresource="status")


def a_definition(custom: Resource) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": custom.group,
        "names": {"plural": custom.plural, "singular": custom.kind.lower(), "kind": custom.kind},
        "scope": "Namespaced" if custom.namespaced else "Cluster",
        "versions": [{"name": custom.version, "served": True, "storage": True, "schema": schema}],
    }
    return {"metadata": {"name": f"{custom.plural}.{custom.group}"}, "spec": spec}


def kai(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kai_cli", *arguments],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_queues_are_listed_with_fair_shares_unknown(kubeconfig: Path) -> None:
    done = kai(kubeconfig, "get", "queues")
    assert done.returncode == 0, done.stderr
    assert "fair shares are not known" in done.stderr
    assert done.stdout.splitlines()[1].split() == ["q", "3", "0", "?", "0", "0"]
    assert "PRIORITY" in kai(kubeconfig, "get", "queues", "-o", "wide").stdout
    [queue] = json.loads(kai(kubeconfig, "get", "queues", "-o", "json").stdout)
    assert (queue["gpu"]["quota"], queue["gpu"]["fair_share"]) == (3.0, None)


def test_versions_are_told_of_all_that_lead_and_who_differs(kubeconfig: Path) -> None:
    done = kai(kubeconfig, "--system-namespace", "killed", "version")
    assert done.returncode == 0, done.stderr
    _, program, cluster, scheduler = (line.split() for line in done.stdout.splitlines())
    assert program == ["kai", release.version(), "-"]
    assert cluster[0] == "kubernetes"
    assert scheduler == [names.SCHEDULER_NAME, "0.0.7", "killed"]
    assert f"{names.SCHEDULER_NAME} 0.0.7" in done.stderr


def test_the_version_of_the_program_is_told_where_there_is_no_cluster(tmp_path: Path) -> None:
    done = kai(tmp_path / "missing", "version", "-o", "json")
    assert done.returncode == 1
    assert [each["what"] for each in json.loads(done.stdout)] == ["kai"]
    assert done.stderr.startswith("kai: ")


def test_pod_groups_are_listed_with_what_they_record_and_positions_unknown(kubeconfig: Path) -> None:
    done = kai(kubeconfig, "get", "podgroups")
    assert "positions are not known" in done.stderr
    heading, row = done.stdout.splitlines()
    assert heading.split()[5:] == ["AGE", "WAITING", "POSITION", "REASON"]
    assert row.split()[3:5] == ["0/1", "Pending"]
    assert row.split()[7] == "-"


def test_what_waits_in_a_queue_is_listed_without_an_order(kubeconfig: Path) -> None:
    done = kai(kubeconfig, "queue", "q")
    assert done.returncode == 0, done.stderr
    assert "whose turn it is is not known" in done.stderr
    assert done.stdout.splitlines()[1].split()[:3] == ["-", "default", "g"]
    wrong = kai(kubeconfig, "queue", "qq")
    assert (wrong.returncode, wrong.stderr) == (1, "kai: there is no queue 'qq'; did you mean 'q'?\n")


def test_pods_are_listed_with_why_they_have_no_place(kubeconfig: Path) -> None:
    done = kai(kubeconfig, "get", "pods", "-o", "wide")
    assert done.returncode == 0, done.stderr
    rows = [row for row in done.stdout.splitlines()[1:] if row.split()[1] == "p"]
    assert [row.split()[:5] for row in rows] == [
        [namespace, "p", "Pending", "0", "-"] for namespace in ("default", "team")
    ]
    assert ["no node has 9 GPUs" in rows[0], "no such volume" in rows[1]] == [True, True]


def test_who_watches_is_told_what_changes_and_nothing_else(kubeconfig: Path) -> None:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}

    def set_quota(gpus: int) -> None:
        patch = json.dumps({"spec": {"resources": {"gpu": {"quota": gpus}}}})
        command = ["kubectl", "patch", "queue", "q", "--type=merge", "-p", patch]
        subprocess.run(command, env=environment, check=True, capture_output=True)

    command = [sys.executable, "-m", "kai_cli", "get", "queues", "-w"]
    watching = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert watching.stdout
    try:
        before = [watching.stdout.readline() for _ in range(2)]
        set_quota(7)
        after = watching.stdout.readline()
    finally:
        set_quota(3)
        watching.terminate()  # who runs in the background may have been told to ignore Ctrl-C
        _, notes = watching.communicate()
    assert [line.split()[:2] for line in (*before, after)] == [["QUEUE", "GPU"], ["q", "3"], ["q", "7"]]
    assert notes.count("the scheduler does not answer: fair shares are not known") == 1


def test_a_column_to_sort_by_that_is_not_there_is_told_with_those_that_are(kubeconfig: Path) -> None:
    done = kai(kubeconfig, "get", "pods", "--sort-by", "colour")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no column 'colour'; there are NAMESPACE, NAME, STATUS" in done.stderr


def test_one_look_at_the_cluster_says_what_is_not_known(kubeconfig: Path) -> None:
    done = kai(kubeconfig, "top", "--once")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "0 nodes, 0 of 0 GPUs in use, 1 group waiting\n"
        "room for pods: 0 of 1 GPU, 0 of 2 GPUs, 0 of 4 GPUs, 0 of 8 GPUs\n"
        "the scheduler does not answer"
    )


@contextmanager
def there(kubeconfig: Path, *made: tuple[Resource, str, dict[str, Any]]) -> Iterator[None]:
    """Objects that are there for a while, with their namespaces."""

    async def create() -> None:
        async with KubeClient.connect(str(kubeconfig), user_agent="test") as client:
            for kind, namespace, body in made:
                await client.create(kind, body, namespace=namespace)

    async def delete() -> None:
        async with KubeClient.connect(str(kubeconfig), user_agent="test") as client:
            for kind, namespace, body in reversed(made):
                await client.delete(kind, body["metadata"]["name"], namespace=namespace)

    asyncio.run(create())
    try:
        yield
    finally:
        asyncio.run(delete())


@pytest.fixture
def starting(kubeconfig: Path) -> Iterator[None]:
    """A pod group whose only pod has a node, and waits there for its images."""
    group = {"metadata": {"name": "starting"}, "spec": {"minMember": 1, "queue": "q"}}
    pod = {"metadata": {"name": "starting", "annotations": {"pod-group-name": "starting"}}}
    pod["spec"] = LEFT["spec"]
    with there(kubeconfig, (POD_GROUPS, "team", group), (PODS, "team", pod)):
        yield


@pytest.mark.usefixtures("starting")
def test_what_has_its_place_and_pulls_images_is_not_among_what_waits(kubeconfig: Path) -> None:
    assert "1 group waiting\n" in kai(kubeconfig, "top", "--once").stdout
    assert [each["name"] for each in json.loads(kai(kubeconfig, "queue", "q", "-o", "json").stdout)] == ["g"]


def test_live_it_takes_keys_and_leaves_the_terminal_as_it_was(kubeconfig: Path) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    environment = os.environ | {
        "KUBECONFIG": str(kubeconfig),
        "TERM": "xterm",
        "COLUMNS": "160",
        "LINES": "50",
    }
    command = [sys.executable, "-m", "kai_cli", "top", "--interval", "600"]
    with subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as live:
        _read_until(ours, b"q end")
        os.write(ours, b"\x1b[A\x1bOB\t\t>")
        _read_until(ours, b"waiting, by NAMESPACE")
        os.write(ours, b"q")
        assert live.wait(deadlines.patience()) == 0
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def _read_until(terminal: int, wanted: bytes) -> None:
    seen = b""

    def there() -> bool:
        nonlocal seen
        if select.select([terminal], [], [], 0)[0]:
            seen += os.read(terminal, 65_536)
        return wanted in seen

    deadlines.until(there, what=wanted.decode())


@pytest.mark.parametrize("words", [["p"], ["pod/p"], ["pod", "p"], ["pod", "pod/p"]])
def test_a_pod_is_explained_by_what_it_records(kubeconfig: Path, words: list[str]) -> None:
    done = kai(kubeconfig, "explain", *words)
    assert done.returncode == 0, done.stderr
    verdict, reason, group = done.stdout.splitlines()[:3]
    assert verdict == "pod default/p: ESCALATE (SchedulerSilent)"
    assert "no scheduler leads" in reason
    assert reason.endswith("; the last that was recorded: no node has 9 GPUs")
    assert group == "pod group: g"


def test_a_pod_whose_group_is_gone_is_explained_without_it(kubeconfig: Path) -> None:
    done = kai(kubeconfig, "explain", "pod/left", "-n", "killed")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pod killed/left: ESCALATE (SchedulerSilent)")


@pytest.fixture
def renamed(kubeconfig: Path) -> Iterator[None]:
    """An installation whose pods name another scheduler than they usually do, and a pod of it."""
    config = {"metadata": {"name": CONFIG_NAME}, "spec": {"global": {"schedulerName": "my-kai"}}}
    group = {"metadata": {"name": "own"}, "spec": {"minMember": 1, "queue": "q"}}
    pod = {"metadata": {"name": "own", "annotations": {"pod-group-name": "own"}}}
    pod["spec"] = {**A_POD["spec"], "schedulerName": "my-kai"}
    with there(kubeconfig, (CONFIGS, "", config), (POD_GROUPS, "team", group), (PODS, "team", pod)):
        yield


@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize(
    "system", [(), ("--system-namespace", "killed")], ids=["none leads", "it was killed"]
)
def test_whose_pod_it_is_goes_by_the_name_of_the_installation(
    kubeconfig: Path, system: tuple[str, ...]
) -> None:
    ours = kai(kubeconfig, *system, "explain", "pod/own", "-n", "team")
    assert ours.stdout.startswith("pod team/own: ESCALATE (SchedulerSilent)"), ours.stderr
    theirs = kai(kubeconfig, *system, "explain", "pod/p")
    assert theirs.stdout.splitlines()[:2] == [
        "pod default/p: CHANGE (AnotherScheduler)",
        "its schedulerName is 'kai-scheduler', so it is not for 'my-kai' to place",
    ]


def test_what_never_reaches_a_scheduler_is_told_and_the_namespace_is_that_of_the_context(
    kubeconfig: Path, tmp_path: Path
) -> None:
    config = yaml.safe_load(kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = "team"
    own = tmp_path / "own"
    own.write_text(yaml.safe_dump(config))
    done = kai(own, "explain", "pod", "p")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [
        "pod team/p: CHANGE (PodGroupMissing)",
        "pod p names pod group 'g', which does not exist",
    ]


def test_all_namespaces_are_what_is_shown_without_one(kubeconfig: Path) -> None:
    asked = ("get", "podgroups", "-o", "json")
    shown = [kai(kubeconfig, *asked, *more).stdout for more in ((), ("-A",), ("-n", "default"))]
    assert len(set(shown)) == 1
    none = kai(kubeconfig, "get", "podgroups", "-n", "elsewhere")
    assert (none.returncode, none.stdout, none.stderr) == (0, "", "No resources found.\n")


@pytest.mark.parametrize("question", [("get", "queues"), ("top", "--once"), ("explain", "pod", "p")])
def test_a_scheduler_that_was_killed_is_told_of_in_one_sentence(
    kubeconfig: Path, question: tuple[str, ...]
) -> None:
    done = kai(kubeconfig, "--system-namespace", "killed", *question)
    assert done.returncode == 0, done.stderr
    [told] = [line for line in (done.stdout + done.stderr).splitlines() if "scheduler" in line]
    assert "does not answer" in told or "no connection to 127.0.0.1:1" in told
    assert "stream broke" not in done.stdout + done.stderr


def test_what_goes_on_behind_is_logged_where_that_is_asked_for(kubeconfig: Path) -> None:
    done = kai(kubeconfig, "-v", "--system-namespace", "killed", "get", "queues", "-o", "json")
    assert "shares are not known" in done.stderr
    assert "127.0.0.1:1" in done.stderr or "no answer in time" in done.stderr
    assert [queue["name"] for queue in json.loads(done.stdout)] == ["q"]


def test_a_folder_without_certificates_is_told_and_nothing_asked(kubeconfig: Path, tmp_path: Path) -> None:
    done = kai(kubeconfig, "--system-namespace", "killed", "--tls-dir", str(tmp_path), "get", "queues")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"kai: --tls-dir: {tmp_path}/ca.crt: No such file or directory\n"


def test_what_is_not_there_or_has_several_meanings_is_told(kubeconfig: Path) -> None:
    none = kai(kubeconfig, "explain", "job/none")
    assert (none.returncode, none.stdout) == (1, "")
    assert none.stderr == "kai: job default/none does not exist; see kubectl get jobs -n default\n"
    nobody = kai(kubeconfig, "explain", "nobody")
    assert "nothing in namespace default is called 'nobody'" in nobody.stderr
    what = kai(kubeconfig, "explain", "gizmo/x")
    assert "'gizmo' is no kind of object here" in what.stderr


def test_a_kind_of_no_namespace_is_explained_though_its_spec_is_empty(kubeconfig: Path) -> None:
    done = kai(kubeconfig, "explain", "gadget/g1")
    assert done.returncode == 0, done.stderr
    assert "Gadget g1 has no pods: its controller has made none" in done.stdout


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("jobs.batch.volcano.sh/train", "job default/train: CHANGE (NoPods)"),
        ("job.v1alpha1.batch.volcano.sh/train", "job default/train: CHANGE (NoPods)"),
        ("podgroups.scheduling.volcano.sh/g", "podgroup.scheduling.volcano.sh default/g: CHANGE (NoPods)"),
        ("podgroup.scheduling.run.ai/g", "podgroup default/g: ESCALATE (SchedulerSilent)"),
    ],
)
def test_a_kind_may_be_named_with_its_group(kubeconfig: Path, asked: str, said: str) -> None:
    done = kai(kubeconfig, "explain", asked)
    assert (done.returncode, done.stdout.splitlines()[:1]) == (0, [said]), done.stderr


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("jobs.batch/x", "job default/x does not exist; see kubectl get jobs -n default"),
        ("jobs.v1.batch/x", "job default/x does not exist; see kubectl get jobs -n default"),
        ("jobs.example.com/x", "'jobs.example.com' is no kind of object here; see kubectl api-resources"),
        ("deploi/x", "'deploi' is no kind of object here; did you mean 'deploy'? see kubectl api-resources"),
        (
            "po t/x",
            "'t' is no kind of object here; did you mean 'po/x --namespace=t'? see kubectl api-resources",
        ),
        (
            "pod deploi/x",
            (
                "'deploi' is no kind of object here; did you mean 'deploy/x' or 'pod/x --namespace=deploi'? "
                "see kubectl api-resources"
            ),
        ),
        ("queue/Q", "there is no queue 'Q'; did you mean 'q'? see kai get queues"),
        ("pod/pp", "pod default/pp does not exist; did you mean 'p'? see kubectl get pods -n default"),
    ],
)
def test_what_is_misspelt_is_told_with_what_is_meant(kubeconfig: Path, asked: str, said: str) -> None:
    assert kai(kubeconfig, "explain", *asked.split()).stderr == f"kai: {said}\n"


def test_a_pod_that_was_evicted_and_is_gone_is_told_with_whom_it_made_room_for(kubeconfig: Path) -> None:
    assert kai(kubeconfig, "explain", "lost").stderr == (
        "kai: default/lost was evicted at 2030-01-01T00:00:00Z: pod lost was reclaimed for g\n"
    )


def test_an_answer_as_data_has_the_documented_keys(kubeconfig: Path) -> None:
    found = json.loads(kai(kubeconfig, "explain", "podgroup/g", "-o", "json").stdout)
    assert list(found) == [
        "kind", "namespace", "name", "podGroup", "verdict", "reason", "stages", "changes", "forecast",
        "position", "evictions",
    ]  # fmt: skip
    assert (found["kind"], found["name"], found["reason"]["code"]) == ("PodGroup", "g", "SchedulerSilent")
    assert [each["state"] for each in found["stages"]] == ["failed", *["not reached"] * 8]


#: What takes long to load, and which of it answers are had without.
ENGINE, LINES, WIRE = ("numpy", "kai.engine", "kai.answers"), ("structlog",), ("grpc", "google.protobuf")
LOADED = """
import sys
from kai_cli.__main__ import main
try:
    main()
finally:
    print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("question", "heavy"),
    [
        (("get", "nodes"), (*ENGINE, *LINES, *WIRE)),
        (("get", "pods"), (*ENGINE, *LINES, *WIRE)),
        (("get", "queues"), (*ENGINE, *LINES)),
        (("top", "--once"), (*ENGINE, *LINES)),
        (("explain", "pod", "p"), LINES),
    ],
    ids=lambda value: " ".join(value),
)
def test_no_more_is_loaded_than_an_answer_takes(
    kubeconfig: Path, question: tuple[str, ...], heavy: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(heavy=heavy), *question],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
