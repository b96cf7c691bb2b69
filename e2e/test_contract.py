"""The embedded API server answers what a real one answers.

The answers of a real one are recorded in ``contract/answers.json`` (``python -m e2e.contract record``), so
the embedded one is compared everywhere; with a real control plane at hand the record itself is checked, too.
Questions whose answers differ are listed in ``contract/known.json``, each of them: the list only shrinks.
"""

import json
from pathlib import Path

import pytest

from e2e.contract import servers
from e2e.contract.__main__ import answers_of, differing, recorded
from e2e.harness import REAL
from kai_local.real import binaries

KNOWN = json.loads((Path(__file__).parent / "contract" / "known.json").read_text())


async def test_the_embedded_server_answers_as_a_real_one():
    found = differing(recorded(), await answers_of(servers.embedded))
    known = {*KNOWN["different on purpose"], *KNOWN["to be made equal"]}
    new = {name: lines for name, lines in found.items() if name not in known}
    assert not new, "\n".join(f"{name}: {line}" for name, lines in new.items() for line in lines)
    assert not known - found.keys(), "these answers agree now; take them off known.json"


@pytest.mark.skipif(not REAL, reason="KAI_E2E_CLUSTER is not real")
async def test_a_real_server_answers_as_recorded():
    try:
        found = await answers_of(servers.real)
    except binaries.BinariesMissing as missing:
        pytest.skip(str(missing))
    assert not differing(recorded(), found)
