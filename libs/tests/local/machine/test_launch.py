"""A pod as a process: what of the manifest reaches it, and how."""

import sys

import pytest

from kai_local.machine.launch import (
    CannotLaunch,
    Check,
    Launch,
    Surroundings,
    launch,
    port_of,
    write_mounts,
)
from kai_local.machine.materials import at_home

ADDRESS = "127.9.9.1"


def a_pod(**container):
    volumes = [
        {"name": "tls", "secret": {"secretName": "tls"}},
        {"name": "config", "configMap": {"name": "config"}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "disk", "hostPath": {"path": "/dev"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "kai-redis"}},
    ]
    body = {
        "name": "main",
        "command": ["python", "-m", "kai_scheduler"],
        "ports": [{"name": "health", "containerPort": 8081}, {"name": "webhook", "containerPort": 9443}],
        "volumeMounts": [
            {"name": "tls", "mountPath": "/etc/kai/tls"},
            {"name": "config", "mountPath": "/etc/config"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}},
    }
    spec = {"containers": [body | container], "volumes": volumes, "terminationGracePeriodSeconds": 7}
    return {"metadata": {"name": "scheduler-x", "namespace": "kai-scheduler"}, "spec": spec}


def a_launch(command):
    return Launch("main", command, {}, ADDRESS, None, None, 1.0)


def launched(tmp_path, **container):
    around = Surroundings(
        namespace="kai-scheduler",
        secrets={
            "tls": {"tls.crt": b"CERTIFICATE"},
            "redis": {"url": b"redis://:pw@kai-redis.kai-scheduler.svc:6379/0"},
        },
        config_maps={"config": {"config.yaml": b"actions: allocate"}},
        addresses={"kai-redis": "127.9.9.2"},
        ours=frozenset({"--scheduler-conf=/tmp/mine.yaml"}),
    )
    return launch(a_pod(**container), "scheduler", ADDRESS, tmp_path, around)


def test_it_listens_on_the_address_of_its_pod(tmp_path):
    one = launched(tmp_path, args=["--grpc-listen=:9090", "--log-json=false", ":8080", "--a=:x"])
    assert one.command[3:] == [
        f"--grpc-listen={ADDRESS}:9090",
        "--log-json=false",
        f"{ADDRESS}:8080",
        "--a=:x",
    ]


def test_variables_are_filled_in(tmp_path):
    env = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    one = launched(tmp_path, args=["--advertise-host=$(POD_IP)", "$(OTHER)"], env=env)
    assert one.environment["POD_IP"] == ADDRESS
    assert one.command[3:] == [f"--advertise-host={ADDRESS}", "$(OTHER)"]


def test_names_of_services_become_addresses(tmp_path):
    source = {"secretKeyRef": {"name": "redis", "key": "url"}}
    one = launched(
        tmp_path,
        args=["--to=kai-redis.kai-scheduler.svc:1", "--not=my-kai-redis.kai-scheduler.svc"],
        env=[{"name": "URL", "valueFrom": source}],
    )
    assert one.environment["URL"] == "redis://:pw@127.9.9.2:6379/0"
    assert one.command[3:] == ["--to=127.9.9.2:1", "--not=my-kai-redis.kai-scheduler.svc"]


def test_mounts_are_folders_of_its_own(tmp_path):
    one = launched(
        tmp_path, args=["--cert=/etc/kai/tls/tls.crt", "--conf=/etc/config/config.yaml", "/tmp", "/tmpfs"]
    )
    assert one.command[3] == f"--cert={tmp_path}/tls/tls.crt"
    assert (tmp_path / "tls" / "tls.crt").read_bytes() == b"CERTIFICATE"
    assert (tmp_path / "tls" / "tls.crt").stat().st_mode & 0o077 == 0
    assert (tmp_path / "config" / "config.yaml").read_text() == "actions: allocate"
    assert one.command[5:] == [str(tmp_path / "tmp"), "/tmpfs"]


def test_addresses_of_files_lead_there_too(tmp_path):
    one = launched(tmp_path, args=["--url=sqlite:////tmp/history.db", "--url=https://host/tmp/x"])
    assert one.command[3:] == [f"--url=sqlite:///{tmp_path}/tmp/history.db", "--url=https://host/tmp/x"]


def test_a_file_of_this_machine_stays_where_it_is(tmp_path):
    one = launched(tmp_path, args=["--scheduler-conf=/tmp/mine.yaml", "--other=/tmp/mine.yaml"])
    assert one.command[3:] == ["--scheduler-conf=/tmp/mine.yaml", f"--other={tmp_path}/tmp/mine.yaml"]


def test_readiness_and_patience_are_those_of_the_manifest(tmp_path):
    one = launched(tmp_path)
    assert one.ready == Check(f"http://{ADDRESS}:8081/readyz", every=10, failures=3)
    assert one.alive is None
    assert one.stop_after == 7


@pytest.mark.parametrize(("told", "seconds"), [(0, 0.0), (None, 30.0)])
def test_no_grace_is_none_and_not_the_usual_one(tmp_path, told, seconds):
    pod = a_pod()
    pod["spec"]["terminationGracePeriodSeconds"] = told
    around = Surroundings("kai-scheduler", {"tls": {}}, {"config": {}})
    assert launch(pod, "x", ADDRESS, tmp_path, around).stop_after == seconds


def test_ports_have_names():
    assert port_of(a_pod(), "webhook") == 9443
    assert port_of(a_pod(), 80) == 80


def test_the_fields_that_containers_ask_for_are_those_of_the_pod(tmp_path):
    wanted = {"NAME": "metadata.name", "WHERE": "metadata.namespace", "IP": "status.podIP"}
    env = [{"name": k, "valueFrom": {"fieldRef": {"fieldPath": path}}} for k, path in wanted.items()]
    one = launched(tmp_path, env=env)
    assert [one.environment[k] for k in (*wanted, "HOSTNAME")] == [
        "scheduler-x", "kai-scheduler", ADDRESS, "scheduler-x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("container", "why"),
    [
        ({"envFrom": [{"secretRef": {"name": "x"}}]}, "envFrom is not known here"),
        ({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {}}}]}, "environment variable A"),
        ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "redis", "key": "no"}}}]}, "key no"),
        ({"volumeMounts": [{"name": "tls", "mountPath": "/x", "subPath": "tls.crt"}]}, "subPath"),
        ({"volumeMounts": [{"name": "disk", "mountPath": "/x"}]}, "volume disk is neither"),
    ],
)
def test_what_this_machine_cannot_do_is_refused_by_name(tmp_path, container, why):
    with pytest.raises(CannotLaunch, match=why):
        launched(tmp_path, **container)


def test_what_a_claim_stands_for_is_there_for_the_next_pod_as_well(tmp_path):
    mounted = {"args": ["--data=/data"], "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    before, after = (launched(tmp_path / uid, **mounted).command[-1] for uid in ("one", "another"))
    assert before == after == f"--data={tmp_path}/claims/kai-redis"


def test_of_a_secret_only_those_keys_are_there_that_its_volume_names(tmp_path):
    pod = a_pod()
    items = [{"key": "tls.crt", "path": "authority"}]
    pod["spec"]["volumes"][0]["secret"]["items"] = items
    around = Surroundings("kai-scheduler", {"tls": {"tls.crt": b"C", "tls.key": b"K"}}, {"config": {}})
    write_mounts(pod, tmp_path, around)
    assert [path.name for path in (tmp_path / "tls").iterdir()] == ["authority"]
    items[0]["key"] = "gone"
    with pytest.raises(CannotLaunch, match="non-existent key gone"):
        write_mounts(pod, tmp_path, around)


def test_redis_and_services_are_programs_of_ours_and_others_are_not(tmp_path):
    for module in ("kai.session", "kai_binder"):
        one = at_home(a_launch(["python", "-m", module]), None, tmp_path)
        assert one.command == [sys.executable, "-m", module]
    for command in (["redis-server"], ["python", "-m", "http.server"], ["python", "-m", "kai.session.x"]):
        with pytest.raises(CannotLaunch, match="only programs of the chart"):
            at_home(a_launch(command), None, tmp_path)


def test_a_second_container_is_refused(tmp_path):
    pod = a_pod()
    pod["spec"]["containers"].append({"name": "sidecar"})
    with pytest.raises(CannotLaunch, match="this one has several: main, sidecar"):
        launch(pod, "x", ADDRESS, tmp_path, Surroundings("ns", {}, {}))


def test_a_mounted_secret_that_changed_is_written_anew_and_others_are_left_alone(tmp_path):
    launched(tmp_path)
    before = (tmp_path / "config" / "config.yaml").stat().st_ino
    changed = Surroundings(
        "kai-scheduler", {"tls": {"tls.crt": b"NEW"}}, {"config": {"config.yaml": b"actions: allocate"}}
    )
    write_mounts(a_pod(), tmp_path, changed)
    assert (tmp_path / "tls" / "tls.crt").read_bytes() == b"NEW"
    assert (tmp_path / "config" / "config.yaml").stat().st_ino == before
