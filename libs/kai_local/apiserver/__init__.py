"""An in-memory Kubernetes API server for demos and tests.

It implements what the API server is documented to do, so that unmodified clients (``kubectl``, controllers,
the six services) work against it. Objects lie in memory; with a folder also in a journal, from which a server
that was killed goes on.

What it leaves out, besides containers: quotas and limit ranges are stored and not enforced, pods get no token
volumes, aggregated APIs are not served, and of the controllers only those that
belong to the API itself are here (garbage collection, the end of namespaces and of custom resources).

A write goes from ``serving`` through ``writing``, which asks ``admission`` and keeps the ``rules``, to the
``store``; a read goes through ``reading``. ``access`` says who may, ``calls`` what is asked for, ``kinds``
what there is, and ``schemas`` and ``patches`` what objects are made of and how they are changed.
"""
