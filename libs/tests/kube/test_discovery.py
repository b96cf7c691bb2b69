"""Which kinds are asked for."""

import pytest


@pytest.mark.parametrize(
    "version", ["apps/v1?watch=1", "apps/v1#x", "../apis/apps/v1", "x/../apps/v1", "apps/v1/", "apps%2Fv1"]
)
async def test_what_is_no_version_names_no_other_path(client, server, answers, version):
    served = answers.json({"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]})
    for path in ("/apis/apps/v1", "/apis/apps/v1/", "/api/apps/v1"):
        server.script("GET", path, served)
    assert await client.discover("apps/v1", "Deployment") is not None
    asked = len(server.requests)
    assert await client.discover(version, "Deployment") is None
    assert len(server.requests) == asked
