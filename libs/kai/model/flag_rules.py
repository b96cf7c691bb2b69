"""What flags must be together, each of which is in order alone, and what one must be beyond its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from kai.model import quantity, spelling

#: What can be said of the resources of a container.
RESOURCE_PARTS: Final = ("requests", "limits")
LEASE_DURATION: Final = 15.0
LEASE_RENEW_DEADLINE: Final = 10.0
LEASE_RETRY_PERIOD: Final = 2.0
#: Seconds in which a process finishes its work, unless it is told otherwise.
DRAIN_TIMEOUT: Final = 20.0
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


def leases_outlast_their_renewal(*, lease: float, deadline: float, retry: float) -> None:
    """Else somebody could still lead whose Lease another has taken.

    Raises:
        ValueError: these are in another order.
    """
    if not retry < deadline < lease:
        raise ValueError(
            "--lease-retry-period must be below --lease-renew-deadline, and that below --lease-duration; "
            f"they are {retry:g}s, {deadline:g}s and {lease:g}s"
        )


def resources_are_amounts(resources: Mapping[str, Any]) -> None:
    """Else no reservation pod could be made of them, or what is meant would be passed over.

    Raises:
        ValueError: a field is not known, an amount is none, or more is asked for than may be had.
    """
    for part, amounts in resources.items():
        if part not in RESOURCE_PARTS:
            raise ValueError(spelling.unknown("field", part, RESOURCE_PARTS))
        if not isinstance(amounts, dict | None):
            problem = f'{part} must be a map of amounts, such as {{"memory": "64Mi"}}'
            raise ValueError(problem)  # noqa: TRY004 (what somebody wrote, not what we passed)
        for name, amount in (amounts or {}).items():
            try:
                quantity.parse(str(amount))
            except quantity.InvalidQuantity as error:
                raise ValueError(f"{part}.{name}: {error}") from error
    requests, limits = (resources.get(part) or {} for part in RESOURCE_PARTS)
    for name in requests.keys() & limits.keys():
        if quantity.parse(str(requests[name])) > quantity.parse(str(limits[name])):
            raise ValueError(f"requests.{name}, {requests[name]}, is above limits.{name}, {limits[name]}")


def a_burst_is_of_something(*, burst: int, qps: float) -> None:
    """Requests at once are some of those that there may be over time.

    Raises:
        ValueError: there is no bound over time.
    """
    if burst and not qps:
        raise ValueError("--burst has no meaning without --qps; give both")


def previews_stay_here(listen: str, *, tls: bool) -> None:
    """Previews are of manifests that not everybody may see.

    Raises:
        ValueError: others could listen in.
    """
    if listen and not tls and reaches_others(listen):
        raise ValueError(
            f"--grpc-listen {listen}: previews are served to other machines with TLS only; "
            "give --tls-ca, --tls-cert and --tls-key, or listen on 127.0.0.1"
        )


def tokens_go_over_tls(listen: str, *, tls: bool) -> None:
    """Who asks over HTTP shows a token.

    Raises:
        ValueError: others could listen in.
    """
    if listen and not tls and reaches_others(listen):
        raise ValueError(
            f"--http-listen={listen} would take tokens without TLS: give --tls-ca, --tls-cert "
            f"and --tls-key, or listen on 127.0.0.1:{listen.rpartition(':')[2]}"
        )


def redis_is_told_once(url: str, *, ca: str, server_name: str, password_file: str) -> None:
    """What a Redis is told who we are by stands in one place.

    Raises:
        ValueError: the URL says otherwise; says what to do.
    """
    if not url:
        return
    if (ca or server_name) and not url.startswith("rediss://"):
        raise ValueError(
            "--redis-ca and --redis-server-name are for TLS: "
            "write rediss:// in --redis-url, or leave them out"
        )
    parts = urlsplit(url)
    if password_file and (parts.password or "password" in parse_qs(parts.query)):
        raise ValueError(
            "--redis-url has a password, and --redis-password-file another: leave one of them out"
        )


def reaches_others(listen: str) -> bool:
    """Whether more than this machine can connect to this ``host:port``."""
    return listen.rpartition(":")[0].strip("[]") not in _LOOPBACK
