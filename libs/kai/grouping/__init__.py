"""Which pods belong together: from a pod and its owners to the PodGroup that its workload wants.

``grouper``    what becomes of one pod
``rules``      which rule goes for its top owner
``workloads``  rules of known kinds, a module for each family; ``karta`` for kinds that a cluster defines
``offline``    the same of a file of manifests, without a cluster
"""
