"""The scheduler's picture of the cluster, kept incrementally.

``resources``  names of resources and their columns
``status``     states of a pod and the groups of states that rules speak of
``classes``    pods with equal requests and constraints share a scheduling class; ``class_table`` has all
``rows``       nodes, tasks, pod groups and queues as rows with the sums that decisions read
``ledger``     the only place that changes those sums; every entry has an exact inverse
``state``      :class:`~kai.snapshot.state.ClusterState`: API objects in, rows out, in any order
``codec``      :class:`~kai.snapshot.codec.ClusterSnapshot`: an immutable cut, as columns of bytes
"""
