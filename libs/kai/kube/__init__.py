"""The seam to the Kubernetes API.

``client`` reads and writes objects, ``reflector`` and ``store`` follow a kind, ``workqueue`` orders
the work that follows, ``lease`` elects a leader, ``events`` tells users. Conflicts and lost watches
are ordinary control flow in here and nothing above needs to know of them.
"""
