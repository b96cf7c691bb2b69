"""Who may do what, and who is asked before."""

from __future__ import annotations

import deadlines
from e2e.contract.exchange import MERGE, Server
from e2e.contract.story.manifests import GROUPS, MAPS, NAMESPACE, PODS, QUEUES, a_map, a_queue


async def access(server: Server) -> None:
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = {"verb": "create", "resource": "pods", "namespace": "x"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = await server.ask("", "POST", reviews, review, keep=False)
    server.note(
        "may the administrator", {"status": answer.status, "allowed": answer.body["status"]["allowed"]}
    )
    stranger = {"Impersonate-User": "stranger"}
    await server.ask("list that is forbidden", "GET", PODS, headers=stranger)
    await server.ask("read that is forbidden", "GET", f"{PODS}/plain", headers=stranger)
    await server.ask("create that is forbidden", "POST", QUEUES, a_queue("x"), headers=stranger)
    await server.ask("status that is forbidden", "PATCH", f"{GROUPS}/right/status", {"status": {}},
                     content_type=MERGE, headers=stranger)  # fmt: skip
    accounts = "/api/v1/namespaces/contract/serviceaccounts/default/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = await server.ask("", "POST", accounts, request, keep=False)
    server.note("token request", {"status": token.status, "token": bool(token.body["status"]["token"])})


async def webhooks(server: Server) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    hook = {"name": "absent.example.com", "rules": [rule], "sideEffects": "None", "timeoutSeconds": 1,
            "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/x"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
            "matchConditions": [{"name": "named", "expression": "object.metadata.name == 'refused'"}],
            }  # fmt: skip
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "contract"}, "webhooks": [hook]}  # fmt: skip
    await server.ask("webhook configuration", "POST", path, body)
    await deadlines.eventually(  # the server looks for new ones now and then
        lambda: server.ask("", "POST", f"{MAPS}?dryRun=All", a_map("refused", a="1"), keep=False),
        lambda answer: answer.status != 201,
        what="the server asks the webhook",
    )
    await server.ask("what a webhook that is absent must admit", "POST", MAPS, a_map("refused", a="1"))
    await server.ask("what it is not asked about", "POST", MAPS, a_map("admitted", a="1"))
    await server.ask("", "DELETE", f"{path}/contract", keep=False)
