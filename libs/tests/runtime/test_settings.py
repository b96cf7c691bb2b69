"""Where settings come from, and what is said about wrong ones."""

from typing import ClassVar

import pytest

from kai.runtime.settings import Duration, ServiceSettings, SettingsError


class PlannerSettings(ServiceSettings):
    flag_names: ClassVar = {"listen-address": "metrics_listen", "plan-conf": "plan_file"}
    ignored_flags: ClassVar = frozenset({"pyroscope-address", "version"})

    period: Duration = 1.0
    plan_file: str = ""
    workers: int = 10


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for name in ("KAI_PERIOD", "KAI_WORKERS", "KAI_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_flags_win_over_environment_over_file_over_defaults(tmp_path, monkeypatch):
    config = tmp_path / "settings.yaml"
    config.write_text("period: 2s\nworkers: 3\nplan-file: from-file\n")
    monkeypatch.setenv("KAI_WORKERS", "4")
    monkeypatch.setenv("KAI_PERIOD", "3")
    settings = PlannerSettings.parse(["--config", str(config), "--period=4s"])
    assert (settings.period, settings.workers, settings.plan_file) == (4.0, 4, "from-file")
    assert settings.leader_elect is False


@pytest.mark.parametrize(
    "arguments",
    [
        ["--workers=7", "--leader-elect"],
        ["--workers", "7", "--leader-elect=true"],
        ["-workers=7", "-leader-elect"],
        ["--workers=6", "--workers=7", "--leader-elect=1"],
    ],
)
def test_flags_are_written_as_the_field_writes_them(arguments):
    settings = PlannerSettings.parse(arguments)
    assert (settings.workers, settings.leader_elect) == (7, True)


def test_known_flags_of_the_original_are_understood():
    settings = PlannerSettings.parse([
        "--metrics-bind-address=:9090", "--health-probe-bind-address=127.0.0.1:0", "--qps=50",
        "--burst", "300", "--zap-log-level=debug", "--pyroscope-address=x", "--leader-elect=false",
        "--plan-conf=x",
    ])  # fmt: skip
    assert (settings.metrics_listen, settings.health_listen) == (":9090", "127.0.0.1:0")
    assert (settings.log_level, settings.plan_file) == ("debug", "x")
    assert settings.ignored == ("--pyroscope-address",)
    assert (settings.qps, settings.burst) == (50, 300)


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        (["--v=3"], "info"),
        (["--v=6"], "debug"),
        (["--zap-log-level=1"], "debug"),
        (["--zap-log-level=info"], "info"),
        (["--zap-log-level=panic"], "error"),
        (["--zap-log-level=debug", "--v=1"], "debug"),
        (["--log-level=error", "--zap-log-level=debug", "--v=6"], "error"),
        (["--log-level=3"], "info"),
        (["--log-level=kai.model=debug"], "info,kai.model=debug"),
    ],
)
def test_verbosity_means_what_it_means_in_the_original(arguments, level):
    assert PlannerSettings.parse(arguments).log_level == level


@pytest.mark.parametrize(
    ("arguments", "json"),
    [
        ([], None),
        (["--zap-devel=false"], True),
        (["--zap-devel"], False),
        (["--zap-devel=true", "--zap-encoder=json"], True),
        (["--zap-encoder", "console", "--zap-devel=false"], False),
        (["--zap-devel=false", "--log-json=false"], False),
        (["--log-json"], True),
    ],
)
def test_the_form_of_logs_may_be_asked_for_in_the_words_of_the_original(arguments, json):
    assert PlannerSettings.parse(arguments).log_json is json


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--version=true"], ["--version", "--skip-controller-name-validation", "--workers=10"]],
)
def test_switches_without_effect_may_be_bare(arguments):
    settings = PlannerSettings.parse(arguments)
    assert "--version" in settings.ignored
    assert settings.workers == 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--worker=3"], r"unknown flag --worker \(did you mean --workers\?\)"),
        (["--workers"], "flag --workers needs a value"),
        (["serve"], "'serve' is not a flag"),
        (["--workers=many"], "--workers='many': Input should be a valid integer"),
        (["--period=soon"], "--period='soon': 'soon' is not a duration; write numbers with"),
        (["--health-listen=localhost"], "--health-listen='localhost': write host:port"),
        (["--leader-elect=maybe"], "--leader-elect='maybe': Input should be a valid boolean"),
        (["--log-level=loud"], "--log-level='loud': allowed are debug, info, warning"),
        (
            ["--log-level=kai.modle=debug"],
            r"no part of this program is called 'kai.modle'; did you mean kai.model\?",
        ),
        (
            ["--zap-log-level=loud"],
            "--zap-log-level='loud': allowed are debug, info, error, panic or a number",
        ),
        (["--zap-log-level=0"], "--zap-log-level='0': allowed are"),
        (["--zap-encoder=xml"], "--zap-encoder='xml': allowed are json and console"),
        (["--zap-encoder"], "flag --zap-encoder needs a value"),
        (["--zap-devel=maybe"], "--zap-devel='maybe': allowed are true and false"),
        (["--qps=inf"], "--qps='inf': it must be a finite number"),
        (["--drain-timeout=inf"], "--drain-timeout='inf': 'inf' is not a duration"),
        (["--drain-timeout=1e12"], "--drain-timeout='1e12': '1e12' is not a duration"),
        (["--profiler-port=70000"], "--profiler-port='70000': Input should be less than or equal to 65535"),
        (
            ["--lease-duration=5s"],
            "--lease-renew-deadline, and that below --lease-duration; they are 2s, 10s and 5s",
        ),
        (["--config=/nowhere/x.yaml"], "--config /nowhere/x.yaml cannot be read"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_named(arguments, said):
    with pytest.raises(SettingsError, match=said):
        PlannerSettings.parse(arguments)


def test_what_is_wrong_in_the_environment_is_named(monkeypatch):
    monkeypatch.setenv("KAI_WORKERS", "x")
    with pytest.raises(SettingsError, match="KAI_WORKERS='x': Input should be a valid integer"):
        PlannerSettings.parse([])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("wrokers: 3", r"unknown setting wrokers \(did you mean workers\?\)"),
        ("workers: [1]", r"settings.yaml: workers=\[1\]: Input should be a valid integer"),
        ("- 1", "must hold a mapping"),
        ("a: b: c", "cannot be read"),
        ("workers: 3\nworkers: 4", "cannot be read: line 2: 'workers' is there twice"),
        ("plan-file: a\nplan_file: b", "plan_file is there twice, once with dashes"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(tmp_path, content, said):
    config = tmp_path / "settings.yaml"
    config.write_text(content)
    with pytest.raises(SettingsError, match=said):
        PlannerSettings.parse([f"--config={config}"])


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("KAI_WORKRES", "unknown variable KAI_WORKRES in the environment; did you mean KAI_WORKERS?"),
        ("KAI_SHEDULE_PERIOD", "did you mean KAI_SCHEDULE_PERIOD?"),
        ("KAI_XYZ", "unknown variable KAI_XYZ in the environment; unset it"),
        ("KAI_WORKERS_PORT", "unknown variable KAI_WORKERS_PORT"),
    ],
)
def test_a_variable_like_ours_that_nobody_reads_is_refused(monkeypatch, variable, said):
    monkeypatch.setenv(variable, "3")
    with pytest.raises(SettingsError) as caught:
        PlannerSettings.parse([])
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KAI_SCHEDULE_PERIOD", "1s"),  # another service's
        ("KAI_REDIS_PORT", "tcp://10.0.0.1:6379"),  # what a pod is told of the Service kai-redis
        ("KAI_REDIS_SERVICE_HOST", "10.0.0.1"),
        ("KAI_SCHEDULER_DEFAULT_SERVICE_PORT_GRPC", "9090"),
        ("KAI_REDIS_PORT_6379_TCP_ADDR", "10.0.0.1"),
        ("KAI_E2E_CLUSTER", "real"),
    ],
)
def test_variables_of_others_are_let_be(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    assert PlannerSettings.parse([]).workers == 10


def test_what_only_the_original_reads_is_told_to_have_no_effect(monkeypatch):
    monkeypatch.setenv("KAI_GOMEMLIMIT_RATIO", "0.9")
    assert PlannerSettings.parse(["--feature-gates=x"]).ignored == ("--feature-gates", "KAI_GOMEMLIMIT_RATIO")


def test_load_ends_with_2_and_one_line(capsys):
    with pytest.raises(SystemExit) as ended:
        PlannerSettings.load(["--workers=x"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: --workers='x'")


def test_help_lists_the_flags(capsys):
    with pytest.raises(SystemExit) as ended:
        PlannerSettings.load(["--help"])
    assert ended.value.code == 0
    assert "--workers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5", 1.5), ("500ms", 0.5), ("1m30s", 90), ("-1s", -1), ("0", 0)]
)
def test_durations_are_seconds_or_go_notation(text, seconds):
    assert PlannerSettings.parse([f"--period={text}"]).period == pytest.approx(seconds)
