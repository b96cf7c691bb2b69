"""The operator is scraped as its operands are."""

from kai.operands import Facts, operands_of_config, read_config
from kai.operands.facts import OPTIONAL_KINDS


def test_the_monitor_of_all_processes_finds_the_operator(helm):
    rendered = helm.render(values={"prometheus": {"enabled": True}})
    service = rendered.one("Service", "kai-operator")
    config = read_config(rendered.one("Config", "kai-config"))
    monitors = {
        each["metadata"]["name"]: each["spec"]
        for each in operands_of_config(config, Facts(served=frozenset(OPTIONAL_KINDS)), ())
        if each["kind"] == "ServiceMonitor"
    }
    found = monitors["kai-processes"]
    assert found["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["metadata"]["labels"][found["jobLabel"]] == "kai-operator"
    assert service["metadata"]["namespace"] in found["namespaceSelector"]["matchNames"]
    (endpoint,) = found["endpoints"]
    (port,) = service["spec"]["ports"]
    assert port["name"] == endpoint["port"]
    (container,) = rendered.one("Deployment", "kai-operator")["spec"]["template"]["spec"]["containers"]
    assert port["targetPort"] in {each["name"] for each in container["ports"]}
