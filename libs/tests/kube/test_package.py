"""Only those parts of the kubernetes package are loaded that are used."""

import subprocess
import sys

CODE = """
import sys
import kai.kube.client
assert "kubernetes.aio.config.kube_config" in sys.modules
unwanted = [name for name in sys.modules if name.startswith(("kubernetes.client", "kubernetes.aio.dynamic"))]
assert not unwanted, unwanted
from kubernetes.aio import dynamic
assert dynamic.DynamicClient
"""


def test_the_client_loads_nothing_that_it_does_not_use_and_hides_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
