"""Records as tests want them: what is not said is usual."""

from kai.history.records import Cycle, Decision, QueueState, Run, Taking

#: A moment to count from.
NOON = 1_800_000_000.0
HOUR = 3600.0


def a_run(pod="a", *, began=0.0, ended=None, ending="", namespace="team", **more):
    """A pod's time on a node; hours after noon."""
    return Run(
        **{
            "pod_uid": f"uid-{namespace}-{pod}",
            "created": NOON + began * HOUR - 60,
            "queue": "research",
            "user_name": "ada",
            "workload": f"Job/{pod}",
            "pod_group": f"pg-{pod}",
            "node": "node-1",
            "cpu_millis": 2000,
            "memory_bytes": 2**30,
            "gpus": 1.0,
            **more,
        },
        namespace=namespace,
        pod=pod,
        began=NOON + began * HOUR,
        ended=None if ended is None else NOON + ended * HOUR,
        ending=ending or ("" if ended is None else "Succeeded"),
    )


def a_cycle(number=1, *, at=0.0, shard="default", epoch=7, **more):
    return Cycle(shard=shard, epoch=epoch, cycle=number, at=NOON + at * HOUR, **more)


def an_eviction(pod="a", *, at=0.0, namespace="team", **more):
    said = {"shard": "default", "epoch": 7, "cycle": 1, "action": "reclaim", "for_queue": "other", **more}
    return Taking(pod_uid=f"uid-{namespace}-{pod}", at=NOON + at * HOUR, namespace=namespace, pod=pod, **said)


def a_decision(group="pg", *, at=0.0, namespace="team", outcome="Unschedulable", **more):
    said = {"shard": "default", "epoch": 7, "cycle": 1, **more}
    return Decision(namespace=namespace, pod_group=group, at=NOON + at * HOUR, outcome=outcome, **said)


def a_queue_state(queue="research", *, at=0.0, shard="default", **more):
    return QueueState(queue=queue, shard=shard, at=NOON + at * HOUR, **more)
