"""What goes wrong with a Prometheus.

PrometheusError
├── PrometheusUnavailable    nobody answers in time, or who answers cannot now; try again later
├── QueryRefused             the query, or who asks, is not accepted
└── UnreadableAnswer         what answers is no Prometheus, or says more than is taken
"""


class PrometheusError(Exception):
    """A question was not answered; the message says by whom and why, and never has a password in it."""


class PrometheusUnavailable(PrometheusError):
    """Nobody answers in time, or who answers cannot now."""


class QueryRefused(PrometheusError):
    """The query is wrong, or who asks may not."""


class UnreadableAnswer(PrometheusError):
    """The answer is not what a Prometheus says, or it is too long."""
