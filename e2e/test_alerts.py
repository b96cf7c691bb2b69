"""Each alert of the example fires in its trouble and in no calm, as Prometheus' own test program finds."""

import subprocess
from typing import Any

import pytest
import yaml

from e2e import monitoring, prometheus

#: An hour of samples, one each minute.
HOUR = "x60"
QUEUE = '{queue_metadata_name="team"}'
#: Series in good times.
CALM = {
    'kai_leading{instance="a"}': f"1{HOUR}",
    'kai_leading{instance="standby"}': f"0{HOUR}",
    'leader_election_master_status{instance="a",name="kai-scheduler"}': f"1{HOUR}",
    'leader_election_master_status{instance="standby",name="kai-scheduler"}': f"0{HOUR}",
    'leader_election_master_status{instance="not-ours",name="other"}': f"0{HOUR}",
    'kai_binders_connected{instance="a"}': f"2{HOUR}",
    'kai_binders_connected{instance="standby"}': f"0{HOUR}",
    'kai_cycle_failures_total{instance="a"}': f"0{HOUR}",
    'kai_e2e_scheduling_latency_milliseconds{instance="a"}': f"40{HOUR}",
    'kai_decisions_outstanding{instance="a"}': f"3{HOUR}",
    'kai_binds_total{instance="a",result="bound"}': f"0+5{HOUR}",
    'kai_node_refusals_total{node="n"}': f"1{HOUR}",
    f"kai_queue_requested_gpus{QUEUE}": f"8{HOUR}",
    f"kai_queue_allocated_gpus{QUEUE}": f"4{HOUR}",
    f"kai_queue_fair_share_gpu{QUEUE}": f"4{HOUR}",
    'workqueue_longest_running_processor_seconds{instance="a",name="pods"}': f"1{HOUR}",
    'controller_runtime_reconcile_errors_total{controller="pods"}': f"0+1{HOUR}",
    'rest_client_requests_total{instance="a",code="200"}': f"0+1000{HOUR}",
    'rest_client_requests_total{instance="a",code="409"}': f"0+100{HOUR}",
    'rest_client_requests_total{instance="a",code="503"}': f"0+1{HOUR}",
    'kai_webhook_reviews_total{path="/x",result="denied"}': f"0+1{HOUR}",
    'kai_webhook_reviews_total{path="/x",result="error"}': f"0{HOUR}",
    'kai_events_total{instance="a",result="written"}': f"0+9{HOUR}",
    'kai_events_total{instance="a",result="dropped"}': f"0{HOUR}",
    'process_start_time_seconds{instance="a",job="binder"}': f"1000{HOUR}",
}
#: What is otherwise in trouble, by alert.
TROUBLES = {
    "KaiNobodyLeads": {'kai_leading{instance="a"}': f"0{HOUR}"},
    "KaiNobodyLeadsShard": {
        'kai_leading{instance="b"}': f"0{HOUR}",
        'leader_election_master_status{instance="b",name="kai-scheduler-b"}': f"0{HOUR}",
    },
    "KaiNoBinder": {'kai_binders_connected{instance="a"}': f"0{HOUR}"},
    "KaiCyclesFail": {'kai_cycle_failures_total{instance="a"}': f"0+1{HOUR}"},
    "KaiCyclesAreSlow": {'kai_e2e_scheduling_latency_milliseconds{instance="a"}': f"9000{HOUR}"},
    "KaiDecisionsAreStuck": {'kai_binds_total{instance="a",result="bound"}': f"7{HOUR}"},
    "KaiObjectsAreLeftOut": {'kai_faults{kind="Pod",reason="Unreadable"}': f"1{HOUR}"},
    "KaiNodeRefusesPods": {'kai_node_refusals_total{node="n"}': f"0+1{HOUR}"},
    "KaiQueueStarves": {f"kai_queue_allocated_gpus{QUEUE}": f"2{HOUR}"},
    "KaiWorkIsStuck": {
        'workqueue_longest_running_processor_seconds{instance="a",name="pods"}': f"0+60{HOUR}"
    },
    "KaiWorkFails": {'controller_runtime_reconcile_errors_total{controller="pods"}': f"0+60{HOUR}"},
    "KaiApiServerFails": {'rest_client_requests_total{instance="a",code="error"}': f"0+200{HOUR}"},
    "KaiWebhookFails": {'kai_webhook_reviews_total{path="/x",result="error"}': f"0+1{HOUR}"},
    "KaiEventsAreDropped": {'kai_events_total{instance="a",result="dropped"}': f"0+1{HOUR}"},
    "KaiProcessRestarts": {'process_start_time_seconds{instance="a",job="binder"}': f"1000+300{HOUR}"},
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory, prometheus_program):
    """Runs cases of alerts; what the program says of those that are otherwise, or an empty text."""
    del prometheus_program  # it is there, and what comes with it
    folder = tmp_path_factory.mktemp("alerts")
    (folder / "rules.yml").write_text(yaml.safe_dump(dict(monitoring.alerts())))

    def check(*cases: dict[str, Any]) -> str:
        tests = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": list(cases)}
        (folder / "tests.yml").write_text(yaml.safe_dump(tests))
        program = prometheus.program("promtool")
        command = [str(program), "test", "rules", "tests.yml"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    return check


def a_case(series, *, firing):
    """After almost an hour these alerts fire, and no others."""
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(firing)]
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "55m",
                "exp_samples": expected,
            }
        ],
    }


def test_there_is_a_trouble_for_each_alert():
    assert set(TROUBLES) == {query.place for query in monitoring.alert_queries()}


def test_nothing_fires_in_good_times(checked):
    assert checked(a_case(CALM, firing=())) == ""


@pytest.mark.parametrize("alert", TROUBLES)
def test_an_alert_fires_in_its_trouble_alone(checked, alert):
    assert checked(a_case({**CALM, **TROUBLES[alert]}, firing=[alert])) == ""


def test_that_nobody_is_there_to_lead_is_noticed(checked):
    there = {name: values for name, values in CALM.items() if "kai_leading" not in name}
    assert checked(a_case(there, firing=["KaiNobodyLeads"])) == ""


def test_that_a_shard_has_no_process_any_more_is_noticed(checked):
    ended = "1x30 stale"
    gone = {
        'kai_leading{instance="b"}': ended,
        'kai_binders_connected{instance="b"}': ended,
        'leader_election_master_status{instance="b",name="kai-scheduler-b"}': ended,
    }
    assert checked(a_case({**CALM, **gone}, firing=["KaiNobodyLeadsShard"])) == ""
