/** Why something waits: verdict, reason, how far it got, what would help, when it starts. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Answer, Forecast, Workload } from "../api/types";
import { useAsked } from "../asked";
import { plural, span } from "../model/format";
import { question } from "../model/route";
import { Failure } from "./states";
import { Command, Verdict, verdictMeaning } from "./words";

const SIGNS = { passed: "✓", failed: "!", "not reached": "·" } as const;

export function AnswerView({ workload, shard }: { workload: Workload; shard: string }): JSX.Element {
  const { answer } = workload;
  if (!answer) return <Unanswered workload={workload} />;
  return (
    <div class="answer">
      <Why answer={answer} />
      <Help answer={answer} shard={shard} />
    </div>
  );
}

/** What insight found of it last, where it cannot be asked anew. */
export function Unanswered({ workload }: { workload: Workload }): JSX.Element {
  const { code, text, verdict } = workload.group;
  return (
    <section class="answer-reason">
      <p class="answer-verdict">
        <Verdict verdict={verdict} />
        <span class="faint">{verdictMeaning(verdict)}</span>
      </p>
      {code && (
        <p class="answer-text">
          <strong class="code">{code}</strong> {text}
        </p>
      )}
      {workload.reason && (
        <p class="faint">How far it got and what would help is not known: {workload.reason}.</p>
      )}
    </section>
  );
}

/** Verdict, reason, and how far it got. */
export function Why({ answer }: { answer: Answer }): JSX.Element {
  return (
    <>
      <section class="answer-reason">
        <p class="answer-verdict">
          <Verdict verdict={answer.verdict} />
          <span class="faint">{verdictMeaning(answer.verdict)}</span>
        </p>
        {answer.reason && (
          <p class="answer-text">
            <strong class="code">{answer.reason.code}</strong> {answer.reason.text}
          </p>
        )}
        {answer.position && <p class="faint">{turn(answer.position)}</p>}
      </section>
      <Ladder stages={answer.stages} />
    </>
  );
}

/** What can be done about it, and what comes if nothing is done. */
export function Help({ answer, shard }: { answer: Answer; shard: string }): JSX.Element {
  return (
    <>
      <Changes changes={answer.changes} />
      {answer.verdict === "WAIT" && <Forecasting key={answer.podGroup} answer={answer} shard={shard} />}
    </>
  );
}

function turn({ queue, ahead, of }: { queue: string; ahead: number; of: number }): string {
  if (of <= 1) return `Nothing else waits in ${queue}.`;
  if (ahead === 0) return `It is the first of ${plural(of, "workload")} that wait in ${queue}.`;
  return `${plural(ahead, "workload")} of the ${of} that wait in ${queue} ${ahead === 1 ? "is" : "are"} served before it.`;
}

function Ladder({ stages }: { stages: Answer["stages"] }): JSX.Element | null {
  if (stages.length === 0) return null;
  return (
    <section>
      <h2>How far it got</h2>
      <ol class="ladder">
        {stages.map((each) => (
          <li key={each.stage} class={`stage stage-${each.state.replace(" ", "-")}`}>
            <span class="stage-sign" aria-hidden="true">
              {SIGNS[each.state]}
            </span>
            <span class="stage-name">{each.stage}</span>
            <span class="stage-text">
              <span class="sr">{each.state}: </span>
              {each.text || (each.state === "not reached" ? "not reached" : "")}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Changes({ changes }: { changes: Answer["changes"] }): JSX.Element | null {
  if (changes.length === 0) return null;
  return (
    <section>
      <h2>What would help</h2>
      <ol class="changes">
        {changes.map((each) => (
          <li key={each.text}>
            <p>
              {each.text}
              {each.proven && <span class="proven">tried in a copy</span>}
            </p>
            {each.command && <Command text={each.command} />}
          </li>
        ))}
      </ol>
    </section>
  );
}

function Forecasting({ answer, shard }: { answer: Answer; shard: string }): JSX.Element {
  const [wanted, want] = useState(false);
  const path = question("live/forecast", { shard, namespace: answer.namespace, name: answer.podGroup });
  const asked = useAsked<{ forecast: Forecast | null; reason: string }>(
    wanted && !answer.forecast ? path : null,
  );
  const forecast = answer.forecast ?? asked.data?.forecast ?? null;
  return (
    <section>
      <h2>When it starts</h2>
      {!wanted && !forecast && (
        <button type="button" class="button" onClick={() => want(true)}>
          Forecast
        </button>
      )}
      {asked.loading && <p role="status">The cluster is lived ahead many times; this takes seconds…</p>}
      {asked.problem && <Failure problem={asked.problem} again={asked.again} />}
      {asked.data && !forecast && <p>There is no forecast: {asked.data.reason || "nothing to go by"}.</p>}
      {forecast && <Forecasted forecast={forecast} />}
    </section>
  );
}

function Forecasted({ forecast }: { forecast: Forecast }): JSX.Element {
  const { p50, p90, horizon } = forecast;
  const within = (value: number | null): string =>
    value === null ? `later than ${span(horizon)}` : `within ${span(value)}`;
  const full = Math.max(p90 ?? 0, p50 ?? 0) || 1;
  return (
    <div class="forecast">
      <dl>
        <dt>as likely as not</dt>
        <dd>{within(p50)}</dd>
        <dt>in nine cases of ten</dt>
        <dd>{within(p90)}</dd>
      </dl>
      {p50 !== null && p90 !== null && (
        <span class="forecast-bar" aria-hidden="true">
          <span class="forecast-90" style={{ width: "100%" }} />
          <span class="forecast-50" style={{ width: `${(100 * p50) / full}%` }} />
        </span>
      )}
      <p class="faint">
        {forecast.reason ? `${forecast.reason} ` : ""}
        {plural(forecast.basis.courses, "course")} of the cluster, from {plural(forecast.basis.runs, "run")}{" "}
        seen.
      </p>
    </div>
  );
}
