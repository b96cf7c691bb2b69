"""Types of numpy arrays by what stands in them; meaning and shape are said where one is kept."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
#: Half as wide, for tables of a number for each node.
ShortInts: TypeAlias = NDArray[np.int32]
#: Positions in another array, as numpy itself gives them.
Positions: TypeAlias = NDArray[np.intp]
#: True for what is meant.
Mask: TypeAlias = NDArray[np.bool_]
