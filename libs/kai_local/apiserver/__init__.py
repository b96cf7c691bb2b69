"""An in-memory Kubernetes API server for demos and tests.

It implements what the API server is documented to do, so that unmodified clients (``kubectl``, controllers,
the six services) work against it. Nothing outlives the process.

What it leaves out, besides containers: quotas and limit ranges are stored and not enforced, pods get no token
volumes, admission policies in CEL and aggregated APIs are not run, and of the controllers only those that
belong to the API itself are here (garbage collection, the end of namespaces and of custom resources).
"""
