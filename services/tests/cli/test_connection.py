"""What is told where the API server has not what it is asked for."""

import pytest
import typer

from kai.kube.errors import ImpossibleName, NotFound
from kai_cli.connection import ask


def told(capsys, error) -> str:
    async def question() -> None:
        raise error

    with pytest.raises(typer.Exit):
        ask(question)
    return capsys.readouterr().err


def test_the_charts_kinds_are_asked_for_where_one_of_them_is_not_served(capsys):
    missing = NotFound("no such resource", status=404, reason="NotFound", request="list queues")
    assert "are the custom resources of the chart's crds/ folder installed?" in told(capsys, missing)


@pytest.mark.parametrize(
    "error",
    [
        NotFound("page not found", status=404, request="get raw /version"),
        NotFound("no such resource", status=404, reason="NotFound", request="list pods queues"),
        NotFound("no queue q", status=404, reason="NotFound", details={"name": "q"}, request="get queues q"),
        ImpossibleName("Pod", ".."),
    ],
    ids=["no API server", "another kind", "one object", "a name that cannot be"],
)
def test_the_charts_kinds_are_not_suspected_of_anything_else(capsys, error):
    assert told(capsys, error) == f"kai: {error}\n"
