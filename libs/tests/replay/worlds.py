"""Properties over random worlds."""

import os

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from kai.bench.worlds import a_world

EXAMPLES = int(os.environ.get("KAI_FUZZ_EXAMPLES", "25"))
SEED = int(os.environ.get("KAI_FUZZ_SEED", "0"))


def fuzz(test):
    """As many worlds, and from the seed, that the environment says."""
    test = given(world=st.randoms(use_true_random=False).map(a_world))(test)
    if SEED:
        test = seed(SEED)(test)
    return settings(max_examples=EXAMPLES, deadline=None, derandomize=not SEED)(test)
