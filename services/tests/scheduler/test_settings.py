"""Flags that users know are understood; what is wrong is named."""

import pytest

from kai.runtime import SettingsError
from kai_scheduler.settings import SchedulerSettings

KNOWN_FLAGS = """
--scheduler-name=x --namespace=ns --metrics-namespace=kai --resource-reservation-app-label=app
--restrict-node-scheduling=true --nodepool-label-key=pool --queue-label-key=queue --partition-label-value=a
--scheduler-conf= --schedule-period=2s --leader-elect=true --version=true --listen-address=:9999
--enable-profiler=false --profiler-port=8182 --pyroscope-address= --pyroscope-mutex-profiler-rate=5
--pyroscope-block-profiler-rate=5 --v=4 --log-json=true --log-flush-frequency=5s
--max-consolidation-preemptees=3 --qps=50 --burst=300 --detailed-fit-errors=true
--update-pod-eviction-condition=true --schedule-csi-storage=true --use-scheduling-signatures=false
--full-hierarchy-fairness=false --allow-consolidating-reclaim=false --num-of-status-recording-workers=5
--default-staleness-grace-period=-1s --stuck-in-releasing-threshold=3m --plugin-server-port=8082
--cpu-worker-node-label-key=c --gpu-worker-node-label-key=g --mig-worker-node-label-key=m
--feature-gates=X=true
"""


def test_every_flag_of_the_original_is_accepted():
    settings = SchedulerSettings.parse(KNOWN_FLAGS.split())
    assert settings.lease_name == "x-a"
    assert settings.shard == "a"
    assert settings.schedule_period == 2.0
    assert settings.metrics_listen == ":9999"
    params = settings.state_params
    assert (params.stuck_in_releasing_seconds, params.restrict_node_scheduling) == (180.0, True)
    keys = params.cpu_worker_label_key, params.gpu_worker_label_key, params.mig_worker_label_key
    assert keys == ("c", "g", "m")
    config = settings.scheduler_config()
    assert config.params.max_consolidation_preemptees == 3
    assert config.params.default_staleness_grace_seconds == -1.0


def test_switches_of_the_original_may_be_bare():
    settings = SchedulerSettings.parse(["--version", "--enable-profiler", "--log-json", "--leader-elect"])
    assert settings.ignored == ("--version",)
    assert (settings.enable_profiler, settings.profiler_port, settings.log_json) == (True, 8182, True)


def test_the_lease_of_the_default_shard_is_the_schedulers_name():
    assert SchedulerSettings.parse([]).lease_name == "kai-scheduler"


@pytest.mark.parametrize(
    ("content", "named"),
    [("actions: allocate, fly", "fly"), ("plugin: x", "plugin"), ("actions: [", "YAML")],
)
def test_a_configuration_that_is_not_understood_is_refused_by_name(tmp_path, content, named):
    path = tmp_path / "conf.yaml"
    path.write_text(content)
    settings = SchedulerSettings.parse([f"--scheduler-conf={path}"])
    with pytest.raises(SettingsError, match=named):
        settings.scheduler_config()


def test_a_configuration_that_is_not_there_is_refused(tmp_path):
    settings = SchedulerSettings.parse([f"--scheduler-conf={tmp_path}/none.yaml"])
    with pytest.raises(SettingsError, match=r"none\.yaml"):
        settings.scheduler_config()


def test_tls_needs_all_three_files():
    with pytest.raises(SettingsError, match="go together"):
        _ = SchedulerSettings.parse(["--tls-ca=/x"]).tls


def test_an_unknown_flag_is_refused_by_name():
    with pytest.raises(SettingsError, match="--schedule-perod"):
        SchedulerSettings.parse(["--schedule-perod=1s"])


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("tiers: [{plugins: [{name: podafinity}]}]", "did you mean 'podaffinity'?"),
        ("usageDBConfig: {usageParams: {windowType: sometimes}}", "usageParams.windowType"),
    ],
)
def test_a_configuration_that_cannot_be_used_ends_the_process_in_one_line(tmp_path, capsys, content, named):
    path = tmp_path / "conf.yaml"
    path.write_text(content)
    with pytest.raises(SystemExit) as ended:
        SchedulerSettings.load([f"--scheduler-conf={path}"])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert named in line
