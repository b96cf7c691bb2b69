"""A way to the page of insight from outside the cluster, for those who want one."""

import pytest

WANTED = {"insight": {"enabled": True, "ingress": {"enabled": True, "host": "kai.example.com"}}}


def with_ingress(**more):
    insight = WANTED["insight"]
    return {"insight": {**insight, "ingress": {**insight["ingress"], **more}}}


def test_there_is_none_unless_it_is_asked_for(helm):
    for values in ({}, {"insight": {"enabled": True}}):
        assert helm.chart(values=values).of("Ingress") == {}


def test_it_leads_to_the_port_at_which_the_page_is(helm):
    found = helm.render(values=with_ingress())
    ingress = found.one("Ingress", "kai-insight")
    (rule,) = ingress["spec"]["rules"]
    assert rule["host"] == "kai.example.com"
    (path,) = rule["http"]["paths"]
    assert (path["path"], path["pathType"]) == ("/", "Prefix")
    told = path["backend"]["service"]
    service = found.one("Service", told["name"])
    assert service["metadata"]["namespace"] == ingress["metadata"]["namespace"]
    assert told["port"]["name"] in [port["name"] for port in service["spec"]["ports"]]
    assert "ingressClassName" not in ingress["spec"]
    assert "tls" not in ingress["spec"]


def test_class_annotations_and_certificates_are_given_on(helm):
    tls = [{"secretName": "page", "hosts": ["kai.example.com"]}]
    annotations = {"nginx.ingress.kubernetes.io/backend-protocol": "HTTPS"}
    values = with_ingress(className="nginx", annotations=annotations, tls=tls)
    found = helm.chart(values=values).one("Ingress", "kai-insight")
    assert (found["spec"]["ingressClassName"], found["spec"]["tls"]) == ("nginx", tls)
    assert found["metadata"]["annotations"] == annotations


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"insight": {"ingress": {"enabled": True, "host": "x"}}}, "set insight.enabled"),
        (with_ingress(host=""), "insight.ingress.host is needed"),
        ({**with_ingress(), "global": {"tls": {"enabled": False}}}, "set global.tls.enabled"),
        ({"insight": {**WANTED["insight"], "ports": {"httpPort": 0}}}, "give it a port"),
        (with_ingress(tls=[{}]), "secretName"),
        (with_ingress(port=1), "port"),
    ],
)
def test_what_leads_nowhere_is_refused(helm, values, told):
    result = helm.template(values=values)
    assert result.returncode != 0
    assert told in result.stderr
