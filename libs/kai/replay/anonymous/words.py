"""Words and what stands for them: one for one, in the same order, and by chance alone.

What is decided between equals follows from the order of names, so the order stays. All else about a word is
lost: what stands for it is a random number, drawn anew for each file and written down nowhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from random import Random
from secrets import SystemRandom

#: Hexadecimal digits of a number.
_DIGITS = 12
_GPU = "gpu"


class Words:
    """Gathers words first, and has another one for each of them afterwards."""

    def __init__(self, kept: Iterable[str], *, random: Random | None = None) -> None:
        """``kept`` are words that stay, and that others keep their places between."""
        self._kept = sorted(set(kept) - {""})
        self._random = random or SystemRandom()
        self._found: set[str] = set()
        self._instead: dict[str, str] | None = None

    def settle(self) -> None:
        """All words are known: find another one for each."""
        words = sorted(self._found)
        numbers = sorted(self._random.sample(range(16**_DIGITS), len(words)))
        self._instead = {
            word: f"{self._place(word)}{number:0{_DIGITS}x}{_marked(word)}"
            for word, number in zip(words, numbers, strict=True)
        }

    def of(self, word: str) -> str:
        """What stands for a word; while words are gathered, itself.

        Raises:
            KeyError: it was not gathered.
        """
        if self._instead is not None:
            return self._instead[word] if word not in self._kept else word
        if word not in self._kept:
            self._found.add(word)
        return word

    def _place(self, word: str) -> str:
        """A beginning that sorts between the same kept words as the word does."""
        above = bisect_left(self._kept, word)
        if above == 0:
            return "a-" if not self._kept or self._kept[0] > "a-~" else ""
        below = self._kept[above - 1]
        if above == len(self._kept):
            return f"{chr(ord(below[0]) + 1)}-"
        return (
            f"{below}-" if self._kept[above].startswith(below) else f"{_between(below, self._kept[above])}-"
        )


def _between(below: str, above: str) -> str:
    """A short text above one word and below another, neither of which begins with the other."""
    same = next(place for place in range(len(below)) if below[place] != above[place])
    step = chr(ord(below[same]) + 1)
    return below[:same] + step if step < above[same] else below


def _marked(word: str) -> str:
    """That a name is of GPUs decides what is charged, so it still says so, at its end if it did there."""
    if word.endswith(_GPU):
        return f"-{_GPU}"
    return f"-{_GPU}-" if _GPU in word.lower() else ""
