/** One workload's life: how it stands, where its pods are, what became of it before. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import type { Decision, Rows, Run, Taking, Workload, WorkloadPod } from "../api/types";
import { useAsked } from "../asked";
import { count, moment, short, span } from "../model/format";
import { question } from "../model/route";
import { go, to } from "../nav";
import { Help, Unanswered, Why } from "../parts/answer";
import { Suggest } from "../parts/search";
import { useSize } from "../parts/size";
import { Answered, Empty } from "../parts/states";
import { type Column, Table } from "../parts/table";
import { useClock, useShard, useStore } from "../store";
import { Asks } from "./waiting";

const EVERY_SECONDS = 5;
const PAST_EVERY_SECONDS = 15;
const PAST_SECONDS = 7 * 86_400;

export function WorkloadView(): JSX.Element {
  const { namespace = "", name = "" } = useStore((state) => state.route.said);
  if (!name)
    return (
      <Empty title="Which workload?">
        <h1 class="sr">Workload</h1>
        <p>Open one from where it waits or runs, or look for it by its name:</p>
        <div class="notice-search">
          <Suggest
            label="Search workloads"
            placeholder="Name of a workload"
            only="group"
            onPick={(found) => go("workload", { namespace: found.namespace, name: found.name })}
          />
        </div>
      </Empty>
    );
  return <Life key={`${namespace}/${name}`} namespace={namespace} name={name} />;
}

function Life({ namespace, name }: { namespace: string; name: string }): JSX.Element {
  const shard = useShard();
  const history = useStore((state) => state.live?.history ?? false);
  const asked = useAsked<Workload>(question("live/workload", { shard, namespace, name }), EVERY_SECONDS);
  return (
    <div class="life">
      <header class="life-head">
        <h1 class="cut" title={asked.data?.group.workload ?? name}>
          {asked.data?.group.workload ?? name}
        </h1>
        <span class="faint cut">
          {namespace}/{name}
        </span>
      </header>
      <Answered asked={asked} what="The workload">
        {(data) => (
          <>
            <div class="life-columns">
              <div class="life-main">
                {data.answer ? <Why answer={data.answer} /> : <Unanswered workload={data} />}
              </div>
              <div class="life-side">
                <section class="card">
                  <Asks row={data.group} />
                </section>
                {data.answer && <Help answer={data.answer} shard={shard} />}
              </div>
            </div>
            <section class="life-pods">
              <h2>Pods</h2>
              <Pods pods={data.pods} more={data.more} />
            </section>
          </>
        )}
      </Answered>
      {history ? (
        <Past namespace={namespace} name={name} />
      ) : (
        <p class="faint">What it was before is told where insight keeps it.</p>
      )}
    </div>
  );
}

const POD_ROW = 32;
/** Of workloads that have parts. */
const PART: Column<WorkloadPod> = {
  id: "part",
  title: "Part",
  width: 110,
  from: 760,
  cell: (pod) => <span class="cut faint">{pod.subGroup}</span>,
};

function Pods({ pods, more }: { pods: WorkloadPod[]; more: boolean }): JSX.Element {
  const now = useClock();
  if (pods.length === 0) return <p class="faint">It has no pods.</p>;
  const columns: Column<WorkloadPod>[] = [
    {
      id: "name",
      title: "Pod",
      cell: (pod) => (
        <span class="cut strong" title={pod.name}>
          {pod.name}
        </span>
      ),
    },
    ...(pods.some((pod) => pod.subGroup) ? [PART] : []),
    { id: "state", title: "State", width: 110, cell: (pod) => pod.state },
    {
      id: "node",
      title: "Node",
      from: 420,
      cell: (pod) =>
        pod.node ? (
          <a class="cut" href={to("cluster", { node: pod.node })}>
            {pod.node}
          </a>
        ) : (
          <span class="faint">–</span>
        ),
    },
    {
      id: "gpus",
      title: "GPUs",
      width: 90,
      numeric: true,
      from: 520,
      cell: (pod) => (
        <>
          {count(pod.gpus)}
          {pod.devices.length > 0 && <span class="faint"> on {pod.devices.join(", ")}</span>}
        </>
      ),
    },
    {
      id: "since",
      title: "Age",
      width: 90,
      numeric: true,
      from: 620,
      cell: (pod) => (pod.since > 0 ? span(now - pod.since) : "–"),
    },
  ];
  return (
    <div class="boxed" style={{ height: `${Math.min(12, pods.length) * POD_ROW + 40}px` }}>
      <Table
        label="Pods"
        columns={columns}
        count={pods.length}
        row={(index) => pods[index]}
        rowKey={(pod) => pod.name}
        rowHeight={POD_ROW}
      />
      {more && <p class="faint foot">It has more pods than are told here.</p>}
    </div>
  );
}

function Past({ namespace, name }: { namespace: string; name: string }): JSX.Element {
  const until = useStore((state) => Math.ceil(state.now / PAST_EVERY_SECONDS) * PAST_EVERY_SECONDS);
  const said = { namespace, podGroup: name, since: until - PAST_SECONDS, limit: 1000 };
  const runs = useAsked<Rows<Run>>(question("runs", said), 0, "runs");
  const decisions = useAsked<Rows<Decision>>(question("decisions", said), 0, "decisions");
  const takings = useAsked<Rows<Taking>>(question("evictions", said), 0, "evictions");
  return (
    <>
      <section class="life-past">
        <h2>Where it ran</h2>
        <Answered asked={runs} what="Where it ran">
          {(data) =>
            data.items.length > 0 ? (
              <Runs runs={data.items} now={until} />
            ) : (
              <p class="faint">Nowhere in the last seven days.</p>
            )
          }
        </Answered>
      </section>
      <div class="life-columns">
        <section class="life-main">
          <h2>How it stood</h2>
          <Answered asked={decisions} what="How it stood">
            {(data) => <Stood decisions={data.items} />}
          </Answered>
        </section>
        <section class="life-side">
          <h2>What it lost</h2>
          <Answered asked={takings} what="What it lost">
            {(data) => <Lost takings={data.items} />}
          </Answered>
        </section>
      </div>
    </>
  );
}

const MOST_LANES = 40;

function Runs({ runs, now }: { runs: Run[]; now: number }): JSX.Element {
  const [element, size] = useSize<HTMLDivElement>();
  const { pods, since } = useMemo(() => byPod(runs), [runs]);
  const label = size.width < 600 ? 110 : 220;
  const width = Math.max(80, size.width - label - 12);
  const place = (at: number): number => ((at - since) / Math.max(1, now - since)) * width;
  return (
    <div class="runs" ref={element}>
      {pods.slice(0, MOST_LANES).map(([pod, lasted]) => (
        <div key={pod} class="run">
          <span class="cut run-name" style={{ width: `${label}px` }} title={pod}>
            {pod}
          </span>
          <svg
            width={width}
            height={16}
            role="img"
            aria-label={`${pod}: ${lasted.map((each) => `${span((each.ended ?? now) - each.began)} on ${each.node}, ${each.ending || "runs"}`).join("; ")}`}
          >
            {lasted.map((each) => (
              <RunBar
                key={each.began}
                run={each}
                from={place(each.began)}
                to={place(each.ended ?? now)}
                now={now}
              />
            ))}
          </svg>
        </div>
      ))}
      <p class="run-axis faint number" style={{ marginLeft: `${label}px`, width: `${width}px` }}>
        <span>{moment(since, now)}</span>
        <span>now</span>
      </p>
      {pods.length > MOST_LANES && <p class="faint">{count(pods.length - MOST_LANES)} more pods ran.</p>}
    </div>
  );
}

const LOST = new Set(["Evicted", "Failed"]);

/** What was taken away, or failed, has a sign at its end. */
function RunBar(props: { run: Run; from: number; to: number; now: number }): JSX.Element {
  const { run, from, to, now } = props;
  return (
    <g>
      <rect
        class={`run-bar run-${(run.ending || "runs").toLowerCase()}`}
        x={from}
        y={2}
        rx={2}
        width={Math.max(2, to - from)}
        height={12}
      >
        <title>{`${run.node}: ${span((run.ended ?? now) - run.began)}, ${run.ending || "runs"}`}</title>
      </rect>
      {LOST.has(run.ending) && (
        <text class="run-lost" x={to + 3} y={12}>
          {run.ending === "Evicted" ? "▼ evicted" : "✕ failed"}
        </text>
      )}
    </g>
  );
}

function byPod(runs: readonly Run[]): { pods: [string, Run[]][]; since: number } {
  const found = new Map<string, Run[]>();
  for (const each of runs) {
    const known = found.get(each.pod);
    if (known) known.push(each);
    else found.set(each.pod, [each]);
  }
  const pods = [...found].sort(([one], [other]) => one.localeCompare(other, "en", { numeric: true }));
  return { pods, since: Math.min(...runs.map((each) => each.began)) };
}

function Stood({ decisions }: { decisions: Decision[] }): JSX.Element {
  const now = useClock();
  if (decisions.length === 0)
    return <p class="faint">Nothing was decided about it in the last seven days.</p>;
  return (
    <ol class="happenings">
      {decisions.slice(0, 100).map((each) => (
        <li key={each.at}>
          <time class="number faint">{moment(each.at, now)}</time>
          <span class="happening">
            <strong>{each.outcome}</strong> {each.reason && <span class="code">{each.reason}</span>}
            {each.message && <span class="happening-why">{each.message}</span>}
          </span>
        </li>
      ))}
    </ol>
  );
}

function Lost({ takings }: { takings: Taking[] }): JSX.Element {
  const now = useClock();
  if (takings.length === 0) return <p class="faint">Nobody has taken its place in the last seven days.</p>;
  return (
    <ol class="happenings">
      {takings.slice(0, 100).map((each) => (
        <li key={`${each.podUid} ${each.at}`}>
          <time class="number faint">{moment(each.at, now)}</time>
          <span class="happening">
            <strong>{each.pod}</strong> {each.action}
            {each.forPodGroup && (
              <>
                {" for "}
                <a href={to("workload", { namespace: each.forNamespace, name: each.forPodGroup })}>
                  {short(each.forPodGroup)}
                </a>
              </>
            )}
            <span class="happening-why">{each.message}</span>
          </span>
        </li>
      ))}
    </ol>
  );
}
