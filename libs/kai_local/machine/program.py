"""The program that a pod's process is: what is run, how it is asked, and where it answers."""

from __future__ import annotations

from typing import Final

from kai_local.machine import status
from kai_local.machine.launch import Check, Launch, Manifest
from kai_local.processes import probes
from kai_local.processes.probes import Probe
from kai_local.processes.programs import Program

#: How pods name the port at which they answer people.
_API: Final = "https"


def program_of(pod: Manifest, one: Launch) -> Program:
    """What is run of a pod, for the supervisor."""
    return Program(
        one.name,
        tuple(one.command),
        one.environment,
        ready=probe_of(one.ready) if one.ready else None,
        address=_shown(one),
        debug_address=one.debug_address,
        api_address=api_address(pod, one.address),
        health=one.ready.url if one.ready and one.ready.url.startswith("http") else "",
        stop_after=one.stop_after,
        is_final=lambda ended: status.is_final(pod, status.exit_code(ended)),
    )


def probe_of(check: Check) -> Probe:
    """What asks as a check says."""
    if check.url.startswith("tcp://"):
        host, _, port = check.url.removeprefix("tcp://").rpartition(":")
        return probes.tcp(host, int(port))
    return probes.http(check.url)


def api_address(pod: Manifest, address: str) -> str:
    """Where a pod at an address answers people and programs over HTTP; empty where it does not say."""
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if port.get("name") == _API:
                return f"https://{address}:{port['containerPort']}"
    return ""


def _shown(one: Launch) -> str:
    """The address that a user can ask."""
    if one.ready is None or not one.ready.url.startswith("http"):
        return one.address
    return one.ready.url.removesuffix("/readyz")
