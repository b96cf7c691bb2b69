/** What would follow from a change, before anybody makes it. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { Problem, ask, post } from "../api/client";
import type { Found, Imagined, PodCount } from "../api/types";
import { count, plural, span } from "../model/format";
import { ASKINGS, missing, targeted } from "../model/question";
import { question } from "../model/route";
import { say, to } from "../nav";
import { Suggest } from "../parts/search";
import { type Head, SmallTable } from "../parts/small-table";
import { Failure } from "../parts/states";
import { Choice, Command } from "../parts/words";
import { useShard, useStore } from "../store";

const QUEUES_HEADS: readonly Head[] = [
  { title: "Queue" },
  { title: "Held", numeric: true },
  { title: "Fair share", numeric: true },
  { title: "Quota", numeric: true },
  { title: "Limit", numeric: true },
];
const WORKLOADS_HEADS: readonly Head[] = [
  { title: "Workload" },
  { title: "Queue" },
  { title: "Run", numeric: true },
  { title: "Wait", numeric: true },
  { title: "Why it waits" },
];

const MOST_BYTES = 256 * 1024;
const MOST_EVENTS = 200;
const WITHIN: readonly (readonly [string, string])[] = [
  ["10m", "10 minutes"],
  ["1h", "an hour"],
  ["6h", "6 hours"],
];

type Answered = { answer: Imagined } | { problem: Problem } | { asking: true } | null;

export function WhatIfView(): JSX.Element {
  const said = useStore((state) => state.route.said);
  const [result, setResult] = useState<Answered>(null);
  const submits = useStore((state) => state.live?.source === "kubeconfig");
  const manifests = said.with === "manifests";
  const latest = useRef<AbortController | null>(null);
  /** Only the latest question is answered: whoever asks another one does not wait for those before it. */
  const leave = (): AbortSignal => {
    latest.current?.abort();
    latest.current = new AbortController();
    return latest.current.signal;
  };
  const run = (path: string, body?: string): void => {
    const signal = leave();
    setResult({ asking: true });
    const show = (found: Answered): void => {
      if (!signal.aborted) setResult(found);
    };
    const answer = body === undefined ? ask<Imagined>(path, signal) : post<Imagined>(path, body, signal);
    answer.then(
      (given) => show({ answer: given }),
      (error: unknown) =>
        show({ problem: error instanceof Problem ? error : new Problem("away", String(error)) }),
    );
  };
  useEffect(() => () => latest.current?.abort(), []);
  return (
    <div class="what-if">
      <section class="what-if-ask card" aria-label="The change">
        <h1>What if</h1>
        <p class="faint">The scheduler's own engine tries it on a copy of the cluster. Nothing is changed.</p>
        <Choice
          label="Kind of change"
          options={[
            ["change", "A change"],
            ["manifests", "A manifest"],
          ]}
          value={manifests ? "manifests" : "change"}
          onChange={(value) => {
            say({ with: value === "manifests" ? value : "" });
            leave();
            setResult(null);
          }}
        />
        {!manifests ? (
          <ChangeForm run={run} />
        ) : submits ? (
          <ManifestForm run={run} />
        ) : (
          <ManifestsElsewhere />
        )}
      </section>
      <section class="what-if-answer" aria-label="What would follow" aria-live="polite">
        {result === null && (
          <p class="what-if-nothing faint">
            Here stands what would follow: who starts, who is evicted and for whom, and what queues and
            workloads have before and after.
          </p>
        )}
        {result && "asking" in result && (
          <div class="notice" role="status">
            <p>The cluster is lived ahead; with much work this takes a while…</p>
          </div>
        )}
        {result && "problem" in result && <Failure problem={result.problem} />}
        {result && "answer" in result && <Followed answer={result.answer} />}
      </section>
    </div>
  );
}

function ChangeForm({ run }: { run: (path: string) => void }): JSX.Element {
  const said = useStore((state) => state.route.said);
  const shard = useShard();
  const queues = useStore((state) => state.cluster?.queues.name ?? []);
  const asking = ASKINGS.find((each) => each.change === said.change) ?? ASKINGS[0];
  const [target, setTarget] = useState(said.target ?? "");
  const [value, setValue] = useState(said.value ?? "");
  const [lack, setLack] = useState("");
  const within = said.within ?? "1h";
  const submit = (): void => {
    const lacking = missing(asking, target, value);
    setLack(lacking);
    if (lacking) return;
    const asked = {
      change: asking.change,
      target: target.trim(),
      value: asking.value === null ? "" : value.trim(),
    };
    say(asked);
    run(question("live/what-if", { shard, ...asked, within }));
  };
  return (
    <form
      class="form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <label for="change">If there were</label>
      <select
        id="change"
        value={asking.change}
        onChange={(event) => {
          say({ change: event.currentTarget.value, target: "", value: "" });
          setTarget("");
          setValue("");
        }}
      >
        {ASKINGS.map((each) => (
          <option key={each.change} value={each.change}>
            {each.name}
          </option>
        ))}
      </select>
      <label for="target">{asking.targetName}</label>
      {asking.target === "queue" ? (
        <select id="target" value={target} onChange={(event) => setTarget(event.currentTarget.value)}>
          <option value="">Choose a queue</option>
          {queues.map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
      ) : (
        <Suggest
          key={asking.change}
          id="target"
          label={asking.targetName}
          placeholder={
            asking.target === "workload"
              ? "namespace/name"
              : asking.target === "nodes"
                ? "node-1,node-2"
                : "node-1"
          }
          only={asking.target === "workload" ? "group" : "node"}
          value={target}
          onText={setTarget}
          onPick={(found: Found) =>
            setTarget(
              asking.target === "workload"
                ? `${found.namespace}/${found.name}`
                : targeted(asking, target, found.name),
            )
          }
        />
      )}
      {asking.value !== null && (
        <>
          <label for="value">{asking.value}</label>
          {asking.values ? (
            <select id="value" value={value} onChange={(event) => setValue(event.currentTarget.value)}>
              <option value="">Choose</option>
              {asking.values.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          ) : (
            <input
              id="value"
              value={value}
              placeholder={asking.example}
              autocomplete="off"
              onInput={(event) => setValue(event.currentTarget.value)}
            />
          )}
        </>
      )}
      <Ending within={within} lack={lack} />
    </form>
  );
}

/** What ends each form: how far to look, what is still missing, and the button. */
function Ending({ within, lack }: { within: string; lack: string }): JSX.Element {
  return (
    <>
      <label for="within">Look ahead</label>
      <select
        id="within"
        value={within}
        onChange={(event) =>
          say({ within: event.currentTarget.value === "1h" ? "" : event.currentTarget.value })
        }
      >
        {WITHIN.map(([each, name]) => (
          <option key={each} value={each}>
            {name}
          </option>
        ))}
      </select>
      {lack && (
        <p class="form-lack" role="alert">
          {lack}.
        </p>
      )}
      <button type="submit" class="button button-main">
        Try it
      </button>
    </>
  );
}

function ManifestForm({ run }: { run: (path: string, body: string) => void }): JSX.Element {
  const shard = useShard();
  const within = useStore((state) => state.route.said.within ?? "1h");
  const [text, setText] = useState("");
  const [lack, setLack] = useState("");
  const submit = (): void => {
    const size = new Blob([text]).size;
    const lacking = !text.trim()
      ? "The manifests are missing"
      : size > MOST_BYTES
        ? `The manifests have ${count(Math.ceil(size / 1024))} KiB; 256 KiB at most`
        : "";
    setLack(lacking);
    if (!lacking) run(question("live/what-if", { shard, within }), text);
  };
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <label for="manifests">Manifests</label>
      <textarea
        id="manifests"
        rows={14}
        spellcheck={false}
        placeholder={"apiVersion: batch/v1\nkind: Job\n…"}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <Ending within={within} lack={lack} />
    </form>
  );
}

/** Insight groups no pods: whoever has manifests tries them with his own rights. */
function ManifestsElsewhere(): JSX.Element {
  return (
    <div class="form">
      <p>Manifests are tried on your machine, with your own rights. On this page, once it is opened by</p>
      <Command text="kai ui" />
      <p>or by one command:</p>
      <Command text="kai what-if -f manifest.yaml" />
    </div>
  );
}

function Followed({ answer }: { answer: Imagined }): JSX.Element {
  const nothing = answer.events.length === 0 && answer.queues.length === 0 && answer.workloads.length === 0;
  return (
    <>
      {answer.changes.map((each) => (
        <div key={each.text} class="what-if-change">
          <p class="strong">{each.text}</p>
          {each.command && <Command text={each.command} />}
        </div>
      ))}
      {answer.notes?.map((each) => (
        <p key={each} class="faint">
          {each}
        </p>
      ))}
      <ul class="tiles">
        <Tile
          number={answer.started.length}
          name={answer.started.length === 1 ? "pod starts" : "pods start"}
          kind="bind"
          sign="●"
        />
        <Tile
          number={answer.evicted.length}
          name={answer.evicted.length === 1 ? "pod is evicted" : "pods are evicted"}
          kind="evict"
          sign="▼"
        />
        <Tile
          number={answer.deleted.length}
          name={answer.deleted.length === 1 ? "pod is deleted" : "pods are deleted"}
          kind="wait"
          sign="○"
        />
      </ul>
      {nothing && <p>Nothing would change.</p>}
      {answer.queues.length > 0 && <QueuesBefore answer={answer} />}
      {answer.workloads.length > 0 && <WorkloadsBefore answer={answer} />}
      {answer.events.length > 0 && <Events answer={answer} />}
      {answer.moreAfter !== null && (
        <p class="faint">Something more is known to happen {span(answer.moreAfter)} from now.</p>
      )}
    </>
  );
}

function Tile({
  number,
  name,
  kind,
  sign,
}: {
  number: number;
  name: string;
  kind: string;
  sign: string;
}): JSX.Element {
  return (
    <li class={number ? "tile" : "tile tile-none"}>
      <span class="tile-number number">{count(number)}</span>
      <span>
        <span class={`mark-${kind}`} aria-hidden="true">
          {sign}
        </span>{" "}
        {name}
      </span>
    </li>
  );
}

/** The old and the new of a number; one of them where they are the same. */
function Both({ before, after }: { before: number | undefined; after: number | undefined }): JSX.Element {
  const shown = (value: number | undefined): string => (value === undefined ? "–" : count(value));
  if (before === after) return <span class="faint">{shown(after)}</span>;
  return (
    <>
      <span class="faint">{shown(before)}</span> <span aria-label="then">→</span>{" "}
      <strong>{shown(after)}</strong>
    </>
  );
}

function QueuesBefore({ answer }: { answer: Imagined }): JSX.Element {
  return (
    <>
      <h2>Queues (GPUs)</h2>
      <SmallTable label="Queues before and after" heads={QUEUES_HEADS}>
        {answer.queues.map((each) => (
          <tr key={each.queue}>
            <th scope="row">
              <a href={to("queues", { queue: each.queue })}>{each.queue}</a>
            </th>
            {(["allocated", "fairShare", "quota", "limit"] as const).map((field) => (
              <td key={field} class="number">
                <Both before={each.before?.[field].gpu} after={each.after?.[field].gpu} />
              </td>
            ))}
          </tr>
        ))}
      </SmallTable>
    </>
  );
}

function WorkloadsBefore({ answer }: { answer: Imagined }): JSX.Element {
  const running = (pods: PodCount | null): number | undefined => pods?.running;
  const waiting = (pods: PodCount | null): number | undefined => pods?.waiting;
  return (
    <>
      <h2>Workloads (pods)</h2>
      <SmallTable label="Workloads before and after" heads={WORKLOADS_HEADS}>
        {answer.workloads.slice(0, MOST_EVENTS).map((each) => (
          <tr key={each.podGroup}>
            <th scope="row">{each.workload}</th>
            <td>{each.queue}</td>
            <td class="number">
              <Both before={running(each.before)} after={running(each.after)} />
            </td>
            <td class="number">
              <Both before={waiting(each.before)} after={waiting(each.after)} />
            </td>
            <td class="faint">{each.reason}</td>
          </tr>
        ))}
      </SmallTable>
    </>
  );
}

const EVENT_SIGNS: Readonly<Partial<Record<string, readonly [kind: string, sign: string, word: string]>>> = {
  started: ["bind", "●", "starts"],
  evicted: ["evict", "▼", "is evicted"],
  deleted: ["wait", "○", "is deleted"],
  ended: ["wait", "○", "ends"],
};

function Events({ answer }: { answer: Imagined }): JSX.Element {
  return (
    <>
      <h2>What happens, in order</h2>
      <ol class="happenings">
        {answer.events.slice(0, MOST_EVENTS).map((each, index) => {
          const [kind, sign, word] = EVENT_SIGNS[each.what] ?? ["wait", "○", each.what];
          return (
            <li key={`${index} ${each.pod}`}>
              <span class="number faint">{each.after < 1 ? "at once" : `after ${span(each.after)}`}</span>
              <span class={`mark-key mark-${kind}`} aria-hidden="true">
                {sign}
              </span>
              <span class="happening">
                <strong>{each.pod}</strong> {word}
                {each.node && ` on ${each.node}`}
                {each.by && <span class="faint"> for {each.by}</span>}
                {each.anyway && <span class="proven">without the change, too</span>}
                {each.why && <span class="happening-why">{each.why}</span>}
              </span>
            </li>
          );
        })}
      </ol>
      {answer.events.length > MOST_EVENTS && (
        <p class="faint">And {plural(answer.events.length - MOST_EVENTS, "more event")}.</p>
      )}
    </>
  );
}
