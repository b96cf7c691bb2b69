"""What is sent for an object that is there already."""

import pytest

from kai_operator import bodies
from kai_operator.bodies import RESTARTED, body, form, prepared


def test_what_somebody_added_by_hand_disappears(build):
    wanted = build.deployment(args=["--a"])
    live = build.live(build.deployment(args=["--a", "--b"], node_selector={"x": "y"}, replicas=3))
    assert body(wanted, live)["spec"] == wanted["spec"]
    assert form(live, wanted) != form(build.live(wanted), wanted)


def test_only_that_very_object_is_replaced(build):
    sent = body(build.config_map(), build.live(build.config_map(), version="41", uid="u"))
    assert (sent["metadata"]["resourceVersion"], sent["metadata"]["uid"]) == ("41", "u")


def test_labels_and_annotations_of_others_stay_and_make_no_difference(build):
    wanted = build.config_map()
    live = build.live(wanted)
    before = form(live, wanted)
    live["metadata"]["labels"]["theirs"] = "x"
    live["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "3"}
    assert form(live, wanted) == before
    sent = body(wanted, live)["metadata"]
    assert sent["labels"]["theirs"] == "x"
    assert sent["annotations"] == {"deployment.kubernetes.io/revision": "3"}


def test_a_label_of_ours_that_was_changed_is_set_again(build):
    wanted = build.config_map()
    live = build.live(wanted)
    live["metadata"]["labels"]["app.kubernetes.io/part-of"] = "mine"
    assert form(live, wanted) != form(build.live(wanted), wanted)
    assert body(wanted, live)["metadata"]["labels"] == wanted["metadata"]["labels"]


def test_helm_is_told_no_more_that_an_object_is_its(build):
    wanted = build.config_map()
    live = build.live(wanted)
    live["metadata"]["annotations"] = {
        "meta.helm.sh/release-name": "kai",
        "helm.sh/resource-policy": "keep",
    }
    assert form(live, wanted) != form(build.live(wanted), wanted)
    assert body(wanted, live)["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_a_restart_of_pods_is_not_undone(build):
    wanted = build.deployment()
    live = build.live(wanted)
    live["spec"]["template"]["metadata"]["annotations"] = {RESTARTED: "now", "other": "gone"}
    template = body(wanted, live)["spec"]["template"]
    assert template["metadata"]["annotations"] == {RESTARTED: "now"}
    assert "annotations" not in wanted["spec"]["template"]["metadata"]


def test_what_the_cluster_assigned_to_a_service_stays(build):
    wanted = build.service(port=444)
    live = build.live(build.service())
    live["spec"] |= {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "sessionAffinity": "ClientIP"}
    live["spec"]["ports"][0]["nodePort"] = 30001
    sent = body(wanted, live)["spec"]
    assert (sent["clusterIP"], sent["ports"][0]["nodePort"], sent["ports"][0]["port"]) == (
        "10.0.0.1",
        30001,
        444,
    )
    assert "sessionAffinity" not in sent


def test_secrets_that_a_cluster_adds_to_accounts_stay(build):
    wanted = build.account("binder") | {"imagePullSecrets": [{"name": "mine"}]}
    live = build.live(wanted) | {
        "imagePullSecrets": [{"name": "mine"}, {"name": "binder-dockercfg-x1"}, {"name": "by-hand"}],
        "secrets": [{"name": "binder-token-1"}],
    }
    sent = body(wanted, live)
    assert sent["imagePullSecrets"] == [{"name": "mine"}, {"name": "binder-dockercfg-x1"}]
    assert sent["secrets"] == [{"name": "binder-token-1"}]


def test_the_type_of_a_secret_which_nobody_can_change_stays(build):
    wanted = build.manifest("Secret", "x", type="kubernetes.io/tls", data={"tls.crt": "eA=="})
    assert body(wanted, build.live(wanted, type="Opaque"))["type"] == "Opaque"


class TestWebhooks:
    def sent(self, build, change, *, keys=("a",)):
        wanted = prepared(build.webhook(keys=keys), build.owner)
        live = build.live(prepared(build.webhook(), build.owner))
        change(live["webhooks"][0])
        return body(wanted, live)["webhooks"][0]

    def test_namespaces_that_a_cloud_spares_stay_spared(self, build):
        added = {"key": "control-plane", "operator": "DoesNotExist"}
        sent = self.sent(build, lambda live: live["namespaceSelector"]["matchExpressions"].append(added))
        assert sent["namespaceSelector"]["matchExpressions"] == [{"key": "a", "operator": "Exists"}, added]

    def test_a_selector_of_our_own_that_is_not_wanted_any_more_goes(self, build):
        sent = self.sent(build, lambda live: None, keys=())
        assert sent["namespaceSelector"]["matchExpressions"] == []

    def test_how_long_to_wait_is_the_administrators_matter(self, build):
        sent = self.sent(build, lambda live: live.update(timeoutSeconds=3, matchPolicy="Exact"))
        assert (sent["timeoutSeconds"], sent["matchPolicy"]) == (3, "Exact")

    @pytest.mark.parametrize("field", ["failurePolicy", "sideEffects"])
    def test_everything_else_is_ours(self, build, field):
        sent = self.sent(build, lambda live: live.update({field: "Changed"}))
        assert sent[field] != "Changed"


def test_equal_manifests_have_equal_digests(build):
    one, other = build.config_map(a="1", b="2"), build.config_map(b="2", a="1")
    assert bodies.digest(one) == bodies.digest(other) != bodies.digest(build.config_map(a="1"))
