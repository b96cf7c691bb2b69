"""What is told of a pod that runs on this machine."""

from kai_local.machine.program import api_address


def a_pod(*ports):
    return {"spec": {"containers": [{"name": "c", "ports": list(ports)}, {"name": "d"}]}}


def test_where_a_pod_answers_people_is_told_by_the_name_of_its_port():
    metrics, https = {"name": "http-metrics", "containerPort": 1}, {"name": "https", "containerPort": 9092}
    assert api_address(a_pod(metrics, https), "127.1.2.3") == "https://127.1.2.3:9092"
    assert api_address(a_pod(metrics), "127.1.2.3") == ""
    assert api_address(a_pod(), "127.1.2.3") == ""
