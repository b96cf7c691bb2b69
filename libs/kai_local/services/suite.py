"""The product's services as programs to run on this machine, outside of the cluster that they serve."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kai.model import names
from kai_local.processes import probes
from kai_local.processes.ports import LOOPBACK, free_ports
from kai_local.processes.programs import Program


@dataclass(frozen=True, slots=True)
class Service:
    """How a service is started: its module, and its flags for what it listens on beside its health."""

    module: str
    listens: tuple[str, ...] = ()
    webhook: str = ""
    without_webhook: str = ""
    #: Further flags that it needs beside a cluster in a box.
    flags: tuple[str, ...] = ()
    #: Which of its flags says where people may ask it over HTTP.
    serves: str = ""
    #: It runs only where it is asked for.
    optional: bool = False


#: In the order in which they are useful.
SERVICES: Mapping[str, Service] = {
    "queue-controller": Service(
        "kai_queue_controller", webhook="--webhook-listen", without_webhook="--enable-webhook=false"
    ),
    "podgroup-controller": Service(
        "kai_podgroup_controller",
        webhook="--webhook-listen",
        without_webhook="--enable-podgroup-webhook=false",
    ),
    "admission": Service("kai_admission", webhook="--webhook-addr"),
    "scheduler": Service("kai_scheduler", listens=("--grpc-listen",)),
    "binder": Service("kai_binder"),
    "pod-grouper": Service("kai_pod_grouper", listens=("--grpc-listen",)),
    "node-scale-adjuster": Service(
        "kai_node_scale_adjuster",
        flags=(f"--scaling-pod-service-account={names.SCALE_ADJUST_NAMESPACE}",),
        optional=True,
    ),
    "insight": Service(
        "kai_insight", listens=("--grpc-listen", "--http-listen"), serves="--http-listen", optional=True
    ),
}
#: Those that run where nobody says which.
USUAL: Final = tuple(name for name, service in SERVICES.items() if not service.optional)
_FLAG = re.compile(r"(?P<service>[a-z-]+):(?:--)?(?P<flag>[a-z-]+)=(?P<value>.*)")
_PORTS_EACH = 4
_DRAIN_SECONDS = 25.0


class UnknownService(Exception):
    """A service was named that does not exist."""


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """How to run the services. Without ``certificates`` the webhooks are not served."""

    kubeconfig: str
    context: str = ""
    redis_url: str = ""
    services: tuple[str, ...] = USUAL
    binders: int = 1
    certificates: Path | None = None
    gpu_sharing: bool = True
    leader_elect: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    #: More flags by service, with their values: ``{"scheduler": {"schedule-period": "2s"}}``.
    flags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suite:
    """The programs, and the ports at which the services with webhooks serve them.

    ``all_pods``: admission has to be asked about pods that say nothing of what it completes, too.
    """

    programs: tuple[Program, ...]
    webhook_ports: dict[str, int]
    all_pods: bool = False


def choose(named: Iterable[str]) -> tuple[str, ...]:
    """The services named, or those that usually run.

    Raises:
        UnknownService: one does not exist.
    """
    wanted = list(named)
    for name in wanted:
        if name not in SERVICES:
            raise UnknownService(f"there is no service {name!r}; there are {', '.join(SERVICES)}")
    return tuple(name for name in SERVICES if name in wanted) if wanted else USUAL


def parse_flags(written: Iterable[str]) -> dict[str, dict[str, str]]:
    """Flags by service, each written ``service:flag=value``.

    Raises:
        UnknownService: one is not written so, or its service does not exist.
    """
    flags: dict[str, dict[str, str]] = {}
    for text in written:
        found = _FLAG.fullmatch(text)
        if found is None or found["service"] not in SERVICES:
            raise UnknownService(
                f"{text!r} must be SERVICE:FLAG=VALUE, with one of the services {', '.join(SERVICES)}"
            )
        flags.setdefault(found["service"], {})[found["flag"]] = found["value"]
    return flags


def plan(options: SuiteOptions) -> Suite:
    """The programs with their ports, each free now."""
    instances = list(_instances(options))
    ports = iter(free_ports(_PORTS_EACH * len(instances)))
    programs: list[Program] = []
    webhook_ports: dict[str, int] = {}
    for name, service_name in instances:
        health, webhook, *others = (next(ports) for _ in range(_PORTS_EACH))
        service = SERVICES[service_name]
        flags = [f"--health-listen={LOOPBACK}:{health}", f"--metrics-listen={LOOPBACK}:{health}"]
        listens = {flag: f"{LOOPBACK}:{port}" for flag, port in zip(service.listens, others, strict=False)}
        flags += [f"{flag}={where}" for flag, where in listens.items()]
        flags += service.flags
        debug = ""
        if service_name == "scheduler":
            flags.append(f"--plugin-server-port={others[-1]}")
            debug = f"{LOOPBACK}:{others[-1]}"
        if service_name == "admission" and options.gpu_sharing:
            flags.append("--gpu-sharing-enabled")
        if service.webhook and options.certificates is not None:
            flags += [f"{service.webhook}={LOOPBACK}:{webhook}", f"--cert-dir={options.certificates}"]
            webhook_ports[service_name] = webhook
        elif service.webhook:
            flags.append(service.without_webhook)
        more = {f"--{flag}": value for flag, value in options.flags.get(service_name, {}).items()}
        flags += [f"{flag}={value}" for flag, value in more.items()]
        serves = {**listens, **more}.get(service.serves, "")
        programs.append(
            Program(
                name,
                (sys.executable, "-m", service.module, *flags),
                environment=_environment(options),
                ready=probes.http(f"http://{LOOPBACK}:{health}/readyz"),
                address=f"http://{LOOPBACK}:{health}",
                debug_address=debug,
                api_address=f"http://{serves}" if serves else "",
                health=f"http://{LOOPBACK}:{health}/readyz",
                stop_after=_DRAIN_SECONDS,
            )
        )
    blocks = options.flags.get("admission", {}).get("block-nvidia-visible-devices", "false")
    return Suite(tuple(programs), webhook_ports, all_pods=blocks == "true")


def _instances(options: SuiteOptions) -> Iterable[tuple[str, str]]:
    for service in options.services:
        if service == "admission" and options.certificates is None:
            continue  # it does nothing else
        if service == "binder" and options.binders != 1:
            yield from ((f"binder-{number + 1}", service) for number in range(options.binders))
        else:
            yield service, service


def _environment(options: SuiteOptions) -> dict[str, str]:
    """What concerns all of them; not on the command line, for a Redis URL may hold a password."""
    common = {
        "KAI_KUBECONFIG": options.kubeconfig,
        "KAI_CONTEXT": options.context,
        "KAI_REDIS_URL": options.redis_url,
        "KAI_LEADER_ELECT": str(options.leader_elect).lower(),
        "KAI_LOG_JSON": "false",  # people read these logs
        "MALLOC_ARENA_MAX": "2",  # many processes on one machine: memory matters more than speed
    }
    return {**{key: value for key, value in common.items() if value}, **options.environment}
