"""However many queues there are, what changes is told as a change."""

import msgspec

from kai.live import views
from kai.live.board import Board
from kai.live.views import View
from libs.tests.engine.builders import NOW, a_job, a_node, a_queue, a_state, usual_priorities
from libs.tests.live.looking import Looking

GPU = (0.0, 0.0, 5.0)


def a_board(queues):
    state = a_state(
        usual_priorities(),
        [a_queue(f"queue-{number}") for number in range(queues)],
        a_node("n", gpus=8),
        a_job("job", queue="queue-1", gpus=1, on="n"),
    )
    state.settle(NOW)
    board = Board()
    board.refresh(state, None, fair={})
    return state, board


def test_sums_of_thousands_of_queues_are_told_to_who_looks_on():
    state, board = a_board(queues=3000)
    looking = Looking(board, None)
    looking.follow(board.refresh(state, (), fair={"queue-1": GPU}))
    assert looking.shown["queues"]["gpu"]["fairShare"].count(5.0) == 1
    assert len(msgspec.json.encode(looking.shown["queues"])) > views.LONGEST_CHANGE
    assert looking.shown["queues"] == looking.anew()["queues"]


def test_a_change_that_is_long_by_itself_is_none(monkeypatch):
    state, board = a_board(queues=3000)
    view = View(board, None, name="v")
    view.frame("default")
    monkeypatch.setattr(views, "LONGEST_CHANGE", 10)
    assert not view.take(board.refresh(state, (), fair={"queue-1": GPU}))
