"""An answer as a page that one can read at 80 columns."""

from __future__ import annotations

from typing import Final

from kai.answers.answer import Answer, Forecast, ForecastBasis, Held, StageState, Verdict
from kai.model.words import counted
from kai_cli.output import Column, emit, table
from kai_cli.views.amounts import lasting

_MARKS: Final = {StageState.PASSED: "✓", StageState.FAILED: "✗", StageState.NOT_REACHED: "·"}
#: Verdicts that have somebody do something.
_HELPLESS: Final = (Verdict.CHANGE, Verdict.ESCALATE)


def show(answer: Answer) -> None:
    """Print it: verdict and reason, how far it got, what would help, and what it lost."""
    where = f"{answer.namespace}/{answer.name}" if answer.namespace else answer.name
    emit(f"{answer.kind.lower()} {where}: {answer.verdict} ({answer.reason.code})", answer.reason.text)
    if answer.pod_group and (answer.kind, answer.name) != ("PodGroup", answer.pod_group):
        emit(f"pod group: {answer.pod_group}")
    if (position := answer.position) is not None:
        emit(f"position in queue {position.queue}: {position.ahead} of {position.of} that wait are before it")
    if answer.forecast is not None:
        emit(forecast_text(answer.forecast))
    rows = [
        (_MARKS[each.state], each.stage, "" if each.text == answer.reason.text else each.text)
        for each in answer.stages
    ]
    emit("", table([Column(""), Column("STAGE"), Column("", prose=True)], rows))
    if answer.changes:
        emit("", "what would help, each by itself, tried on a copy of the cluster:")
        for change in answer.changes:
            emit(f"  - {change.text}", *([f"      {change.command}"] if change.command else []))
    elif answer.verdict in _HELPLESS:
        emit("", "no change was found that lets it start by itself; ask again once this is mended")
    if answer.evictions:
        lost = [(each.at, each.by or "-", each.action, each.why) for each in answer.evictions]
        columns = [Column("EVICTED"), Column("BY"), Column("ACTION"), Column("WHY", prose=True)]
        emit("", table(columns, lost))


def forecast_text(forecast: Forecast) -> str:
    """When it starts, in a sentence, and on what that rests."""
    if forecast.p50 is None:
        text = f"when it starts cannot be told: {forecast.reason}"
    else:
        text = f"it starts within {lasting(forecast.p50)} as likely as not, "
        late = forecast.p90
        text += (
            f"and within {lasting(late)} in nine cases of ten"
            if late is not None
            else f"but there is no bound for nine cases of ten: {forecast.reason}"
        )
    basis = forecast.basis
    rests = [
        f"runtimes as in {counted(basis.runs, 'run')} of the past",
        f"the cluster was let live on {counted(basis.courses, 'time')}",
        *(f"of {known.of} such times that are over {known.held} held" for known in _decided(basis)),
    ]
    return f"{text} ({'; '.join(rests)})"


def _decided(basis: ForecastBasis) -> list[Held]:
    """How the late bounds held; nothing before there are any."""
    known = basis.coverage.get("p90")
    return [known] if known is not None and known.of else []
