"""Properties over random worlds."""

import os
import random

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from kai.bench.worlds import a_world

EXAMPLES = int(os.environ.get("KAI_FUZZ_EXAMPLES", "25"))
SEED = int(os.environ.get("KAI_FUZZ_SEED", "0"))
#: Drawn step by step, so that they can be made smaller, or at once, which makes them fuller.
WORLDS = st.one_of(
    st.randoms(use_true_random=False).map(a_world),
    st.integers(0, 2**48).map(lambda number: a_world(random.Random(number))),
)


def fuzz(test):
    """As many worlds, and from the seed, that the environment says."""
    test = given(world=WORLDS)(test)
    if SEED:
        test = seed(SEED)(test)
    return settings(max_examples=EXAMPLES, deadline=None, derandomize=not SEED)(test)
