"""A cluster in a box, for demos and tests: API server, controllers, nodes, and the services beside them.

==================  ==================================================================================
``box``             a cluster as its user sees it: brought up, recorded, found again, taken down
``services``        the services as processes, beside this or any other cluster (``kai run``)
``installation``    what an installation leaves in a cluster, by our own hand, helm or Docker Compose
``embedded``        a control plane of our own: an API server, and one process for all the rest
``real``            etcd, kube-apiserver, kube-controller-manager and KWOK as control plane
``machine``         this machine as the node that runs the chart's pods
``controllers``     workload controllers and default scheduler of an embedded cluster
``kubelet``         the simulated nodes
``apiserver``       the API server
``parts``           what those share who play a part in a cluster: objects, watches, requests
``processes``       programs run as one, asked whether they are ready, and known again
==================  ==================================================================================

Each knows only those below it. Nothing of the product knows any of it, so its images do without.
"""
