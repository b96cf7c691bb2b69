"""Config maps and leases: objects that are little but data."""

from __future__ import annotations

from e2e.contract.exchange import MERGE, Server
from e2e.contract.story.manifests import LEASES, MAPS, a_map


async def config_maps(server: Server) -> None:
    await server.ask("config map", "POST", MAPS, a_map("settings", a="1"))
    wrong = a_map("wrong", a="1")
    wrong["data"] = {"bad key": "1"}
    await server.ask("config map with a bad key", "POST", MAPS, wrong)
    wrong["data"] = {"a": 1}
    await server.ask("config map with a number", "POST", MAPS, wrong)
    fixed = a_map("fixed", a="1") | {"immutable": True}
    await server.ask("", "POST", MAPS, fixed, keep=False)
    patch = {"data": {"a": "2"}}
    await server.ask("immutable config map", "PATCH", f"{MAPS}/fixed", patch, content_type=MERGE)
    create_by_put = a_map("new", a="1")
    await server.ask("update of a config map that is not there", "PUT", f"{MAPS}/new", create_by_put)


async def leases(server: Server) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"},
             "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15,
                      "renewTime": "2026-01-02T03:04:05.000000Z"}}  # fmt: skip
    made = await server.ask("lease", "POST", LEASES, lease)
    taken = {**made.body, "spec": made.body["spec"] | {"holderIdentity": "b"}}
    await server.ask("lease that is taken over", "PUT", f"{LEASES}/leader", taken)
    await server.ask("lease that somebody else took over", "PUT", f"{LEASES}/leader", taken)
    wrong = {**lease, "metadata": {"name": "wrong"}, "spec": {"leaseDurationSeconds": 0}}
    await server.ask("lease of no duration", "POST", f"{LEASES}?dryRun=All", wrong)
    short = {**lease, "metadata": {"name": "wrong"}, "spec": {"renewTime": "yesterday"}}
    await server.ask("lease with a time that is none", "POST", LEASES, short)
