"""What a pod's process is called."""

from kai_local.machine import naming


def a_pod(app="binder", namespace="kai-scheduler"):
    return {"metadata": {"namespace": namespace, "name": f"{app}-x", "labels": {"app": app}}}


def test_a_process_is_called_as_its_service_where_it_is_the_only_one():
    assert naming.free_name(a_pod(), (), alone=True) == "binder"
    assert naming.free_name(a_pod("kai-scheduler-default"), (), alone=True) == "scheduler"


def test_one_that_comes_while_another_has_the_name_has_a_number():
    assert naming.free_name(a_pod(), {"binder"}, alone=True) == "binder-2"
    assert naming.free_name(a_pod(), {"binder", "binder-2"}, alone=True) == "binder-3"


def test_of_several_each_has_a_number():
    assert naming.free_name(a_pod(), (), alone=False) == "binder-1"
    assert naming.free_name(a_pod(), {"binder-1"}, alone=False) == "binder-2"


def test_elsewhere_it_is_called_by_its_namespace_too():
    assert naming.free_name(a_pod(namespace="team"), (), alone=True) == "binder.team"


def test_pods_of_one_application_and_namespace_are_kin():
    assert naming.kin(a_pod()) == naming.kin(a_pod())
    assert naming.kin(a_pod()) != naming.kin(a_pod(namespace="team"))
