"""This machine as a node of a cluster: the pods of the chart run here, as processes.

The other nodes of a cluster in a box are simulated. This one does for the chart's pods what a kubelet, a
network and a DNS would do: it starts what their manifests say, starts it again when it ends, tells their
status and their logs, ends them when they are deleted, and leads the API server to their Services. So
whatever helm or kubectl changes in the installation takes effect as on any cluster.
"""
