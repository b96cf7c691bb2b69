"""What kube-controller-manager and kube-scheduler do in a real cluster, as far as workloads need it.

Each kind is a pure function from what is seen to what is to be done (``replica_sets``, ``deployments``,
``stateful_sets``, ``jobs``, ``cron_jobs``, ``daemon_sets``, ``placement``, ``volumes``,
``device_claims``); ``runner``, ``storage`` and ``devices`` watch and act.
"""
