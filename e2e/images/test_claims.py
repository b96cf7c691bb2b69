"""Who is asked in a container, and is not heard."""

import pytest

from e2e.images.claims import Broken, Subject


class Faint:
    """Of what is run in its containers only the last is heard."""

    def __init__(self, silences):
        self.silences = silences

    def run(self, container, *command, text, seconds):
        self.silences -= 1
        return f"{container}: {' '.join(command)}" if self.silences < 0 else ""


def asked(silences):
    return Subject(Faint(silences), "image", "container", "lock", boxed=False).run("id", "-u")


@pytest.mark.parametrize("silences", [0, 1, 2])
def test_whoever_is_not_heard_is_asked_again(silences):
    assert asked(silences) == "container: id -u"


def test_who_never_says_anything_breaks_what_is_claimed_of_him():
    with pytest.raises(Broken, match="id -u: it printed nothing, 3 times"):
        asked(3)
