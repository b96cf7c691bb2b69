"""Which programs the product is, and how they are told what they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from kai_local.installation.webhooks import WebhookEndpoints
from kai_local.services.suite import SERVICES, USUAL, SuiteOptions, UnknownService, choose, parse_flags, plan


def options(**more: object) -> SuiteOptions:
    return SuiteOptions(kubeconfig="/k", certificates=Path("/certs"), **more)  # type: ignore[arg-type]


def flags(command: tuple[str, ...]) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in command[3:])


def test_all_six_are_run_each_with_ports_of_its_own() -> None:
    suite = plan(options(redis_url="redis://:secret@h/0"))
    assert {program.name for program in suite.programs} == set(USUAL)
    ports = [
        value.rpartition(":")[2]
        for p in suite.programs
        for k, value in flags(p.command).items()
        if "listen" in k or k.endswith("-addr")
    ]
    metrics = [flags(p.command)["--metrics-listen"].rpartition(":")[2] for p in suite.programs]
    assert len(set(ports)) == len(ports) - len(metrics)  # metrics and health share theirs
    assert all(program.environment["KAI_REDIS_URL"] == "redis://:secret@h/0" for program in suite.programs)
    assert not any("secret" in part for program in suite.programs for part in program.command)


def test_several_binders_are_told_apart() -> None:
    names = [program.name for program in plan(options(binders=3)).programs]
    assert [name for name in names if name.startswith("binder")] == ["binder-1", "binder-2", "binder-3"]


def test_without_certificates_nobody_serves_webhooks() -> None:
    suite = plan(SuiteOptions(kubeconfig="/k"))
    assert suite.webhook_ports == {}
    commands = {program.name: program.command for program in suite.programs}
    assert "admission" not in commands
    assert "--enable-webhook=false" in commands["queue-controller"]


def test_only_services_that_exist_can_be_named() -> None:
    assert choose([]) == USUAL
    assert choose(["binder", "scheduler"]) == ("scheduler", "binder")
    with pytest.raises(UnknownService, match=r"no service 'sheduler'; there are .*scheduler"):
        choose(["sheduler"])


def test_the_node_scale_adjuster_runs_where_it_is_asked_for() -> None:
    assert set(SERVICES) - set(USUAL) == {"node-scale-adjuster", "insight"}
    programs = {program.name: program.command for program in plan(options(services=tuple(SERVICES))).programs}
    assert flags(programs["node-scale-adjuster"])["--scaling-pod-service-account"] == "kai-scale-adjust"


def test_a_service_gets_the_flags_that_are_added_for_it_last() -> None:
    added = parse_flags(
        ["scheduler:schedule-period=2s", "binder:--plugins={}", "scheduler:scheduler-conf=/f=1"]
    )
    programs = {program.name: program.command for program in plan(options(flags=added)).programs}
    assert programs["scheduler"][-2:] == ("--schedule-period=2s", "--scheduler-conf=/f=1")
    assert programs["binder"][-1] == "--plugins={}"
    assert "--plugins={}" not in programs["scheduler"]


@pytest.mark.parametrize("written", ["scheduler", "scheduler:period", "sheduler:a=b", ":a=b"])
def test_a_flag_that_is_for_nobody_is_refused(written: str) -> None:
    with pytest.raises(UnknownService, match=r"must be SERVICE:FLAG=VALUE, with one of .*binder"):
        parse_flags([written])


def test_only_webhooks_of_services_that_run_are_registered() -> None:
    endpoints = WebhookEndpoints({"queue-controller": 1234}, b"PEM")
    ((resource, manifest),) = endpoints.configurations()
    assert resource.kind == manifest["kind"] == "ValidatingWebhookConfiguration"
    client = manifest["webhooks"][0]["clientConfig"]
    assert client == {"url": "https://127.0.0.1:1234/validate-scheduling-run-ai-v2-queue", "caBundle": "UEVN"}
    assert len(WebhookEndpoints(plan(options()).webhook_ports, b"PEM").configurations()) == 5


def test_admission_that_blocks_devices_is_asked_about_all_pods() -> None:
    blocking = plan(options(flags={"admission": {"block-nvidia-visible-devices": "true"}}))
    assert blocking.all_pods
    assert not plan(options()).all_pods
    asked = [
        [condition["name"] for condition in manifest["webhooks"][0].get("matchConditions", ())]
        for _, manifest in WebhookEndpoints(blocking.webhook_ports, b"PEM", all_pods=True).configurations()
    ]
    assert asked[:2] == [["scheduler-name-match"], ["scheduler-name-match", "changes-what-counts"]]


def test_insight_answers_over_http_on_loopback_where_that_is_told() -> None:
    def serves(**more):
        (program,) = plan(options(services=("insight",), **more)).programs
        return program.api_address, flags(program.command)["--http-listen"]

    address, listens = serves()
    assert address == f"http://{listens}"
    assert listens.startswith("127.0.0.1:")
    assert serves(flags=parse_flags(["insight:http-listen=127.0.0.1:5"])) == (
        "http://127.0.0.1:5",
        "127.0.0.1:5",
    )
    assert serves(flags=parse_flags(["insight:http-listen="]))[0] == ""
