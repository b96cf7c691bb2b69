/** Everything that waits, and why. */

import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";

import type { Waiting, WaitingRow, Workload } from "../api/types";
import { type Asked, useAsked } from "../asked";
import { count, cpus, bytes, plural, signed, span } from "../model/format";
import { type Placed, type Places, arranged, kept } from "../model/places";
import { question } from "../model/route";
import { leaves } from "../model/queues";
import { say, to } from "../nav";
import { AnswerView } from "../parts/answer";
import { Split } from "../parts/split";
import { Answered, Empty, Hidden } from "../parts/states";
import { type Column, Table } from "../parts/table";
import { Fact, Facts, Verdict, VERDICT_ORDER, verdictMeaning } from "../parts/words";
import { current, useClock, useShard, useStore } from "../store";

const EVERY_SECONDS = 4;
const MOST = 1000;
const SORTS = { age: "age", position: "position", gpus: "gpus", workload: "name" };

/** Its name without the kind of thing that it is. */
function nameOf(row: WaitingRow): string {
  return row.workload.slice(row.workload.indexOf("/") + 1) || row.name;
}

function kindOf(row: WaitingRow): string {
  return row.workload.includes("/") ? row.workload.slice(0, row.workload.indexOf("/")) : "";
}

export function keyOf(row: { namespace: string; name: string }): string {
  return `${row.namespace}/${row.name}`;
}

export function WaitingView(): JSX.Element {
  const said = useStore((state) => state.route.said);
  const { namespace = "", queue = "", verdict = "", code = "", text = "", sort = "", open = "" } = said;
  const shard = useShard();
  const path = question("live/waiting", { shard, namespace, queue, verdict, code, text, sort, limit: MOST });
  const asked = useAsked<Waiting>(path, EVERY_SECONDS, `waiting ${shard}`);
  const [places, arrange] = usePlaces(asked);
  const opened = places?.rows.find((each) => keyOf(each.row) === open)?.row;
  return (
    <Split
      title={opened ? nameOf(opened) : open.slice(open.indexOf("/") + 1)}
      opened={open}
      onClose={() => say({ open: "" })}
      detail={open ? <Opened shard={shard} name={open} row={opened} /> : null}
    >
      <h1 class="sr">Waiting</h1>
      <Filters waiting={asked.data} />
      <Answered asked={asked} what="What waits">
        {(data) =>
          places && places.rows.length > 0 ? (
            <>
              <Moved places={places} arrange={arrange} />
              <Table
                label="Workloads that wait"
                columns={COLUMNS}
                count={places.rows.length}
                row={(index) => places.rows[index]}
                rowKey={(each) => keyOf(each.row)}
                rowClass={(each) => (each.gone ? "gone" : "")}
                open={(each) => say({ open: keyOf(each.row) === open ? "" : keyOf(each.row) })}
                opened={open}
                sort={sort || "age"}
                sorts={SORTS}
                onSort={(by) => say({ sort: by === "age" ? "" : by })}
                rowHeight={48}
              />
              {data.more && (
                <p class="faint foot">
                  The first {count(data.items.length)} of {count(data.total)}; narrow it down by filters.
                </p>
              )}
              <Hidden count={data.hidden} what="wait" />
            </>
          ) : (
            <Nothing data={data} filtered={Boolean(namespace || queue || verdict || code || text)} />
          )
        }
      </Answered>
    </Split>
  );
}

/** The rows in their places, and what puts them in order anew. */
function usePlaces(asked: Asked<Waiting>): [Places<WaitingRow> | null, () => void] {
  const before = useRef<{ path: string; places: Places<WaitingRow> } | null>(null);
  const [turn, next] = useState(0);
  const placed = useRef(0);
  const { data, of: path } = asked;
  const places = useMemo(() => {
    if (!data) return null;
    const known = before.current;
    const anew = known?.path !== path || placed.current !== turn;
    placed.current = turn;
    const places = anew ? arranged(data.items) : kept(known.places, data.items, keyOf);
    before.current = { path, places };
    return places;
  }, [data, path, turn]);
  return [places, () => next(turn + 1)];
}

function Moved({ places, arrange }: { places: Places<WaitingRow>; arrange: () => void }): JSX.Element {
  const words = [
    ...(places.came ? [`${plural(places.came, "new one", "new ones")} at the end`] : []),
    ...(places.went ? [`${count(places.went)} no longer ${places.went === 1 ? "waits" : "wait"}`] : []),
    ...(places.moved && !places.came && !places.went ? ["their order is another one now"] : []),
  ];
  return (
    <div class={`moved${words.length ? "" : " moved-none"}`} role="status">
      {words.length > 0 && (
        <>
          <span>Rows keep their places: {words.join(", ")}.</span>
          <button type="button" class="button button-small" onClick={arrange}>
            Put in order
          </button>
        </>
      )}
    </div>
  );
}

function Nothing({ data, filtered }: { data: Waiting; filtered: boolean }): JSX.Element {
  const clear = { namespace: "", queue: "", verdict: "", code: "", text: "" };
  if (filtered)
    return (
      <Empty title="Nothing of this kind waits">
        <button type="button" class="button" onClick={() => say(clear)}>
          Take the filters away
        </button>
        <Hidden count={data.hidden} what="wait" />
      </Empty>
    );
  return (
    <Empty title="Nothing waits">
      <p>All work that was submitted has its place.</p>
      <Hidden count={data.hidden} what="wait" />
    </Empty>
  );
}

function Filters({ waiting }: { waiting: Waiting | null }): JSX.Element {
  const said = useStore((state) => state.route.said);
  const { verdict = "", code = "", queue = "", text = "", namespace = "" } = said;
  const queues = useStore((state) => state.cluster?.queues);
  const names = queues ? leaves(queues).map((index) => queues.name[index]) : [];
  const codes = Object.entries(waiting?.codes ?? {})
    .map(([each, number]): [string, number] => [each, number ?? 0])
    .filter(([each]) => each);
  return (
    <div class="filters" role="search" aria-label="Filters">
      <div class="verdicts" role="group" aria-label="Verdict">
        {VERDICT_ORDER.map((each) => (
          <button
            key={each}
            type="button"
            class="verdict-filter"
            aria-pressed={verdict === each}
            title={verdictMeaning(each)}
            onClick={() => say({ verdict: verdict === each ? "" : each })}
          >
            <Verdict verdict={each} />
            <span class="number">{count(waiting?.verdicts[each] ?? 0)}</span>
          </button>
        ))}
      </div>
      <Chosen label="Reason" any="Any reason" name="code" value={code} options={withCounts(codes, code)} />
      <Chosen
        label="Queue"
        any="Any queue"
        name="queue"
        value={queue}
        options={[...new Set([...names, ...(queue ? [queue] : [])])].map((each) => [each, each])}
      />
      <Typed label="Namespace" name="namespace" value={namespace} />
      <Typed label="Text" name="text" value={text} />
      {waiting && (
        <span class="filters-total">
          <strong>{count(waiting.total)}</strong> {waiting.total === 1 ? "waits" : "wait"}
        </span>
      )}
    </div>
  );
}

function withCounts(codes: [string, number][], chosen: string): [string, string][] {
  const options = codes
    .sort(([, one], [, other]) => other - one)
    .map(([each, number]): [string, string] => [each, `${each} (${count(number)})`]);
  return chosen && !codes.some(([each]) => each === chosen) ? [[chosen, chosen], ...options] : options;
}

function Chosen(props: {
  label: string;
  any: string;
  name: string;
  value: string;
  options: [string, string][];
}): JSX.Element {
  return (
    <select
      aria-label={props.label}
      value={props.value}
      class={props.value ? "filtering" : ""}
      onChange={(event) => say({ [props.name]: event.currentTarget.value })}
    >
      <option value="">{props.any}</option>
      {props.options.map(([value, shown]) => (
        <option key={value} value={value}>
          {shown}
        </option>
      ))}
    </select>
  );
}

function Typed({ label, name, value }: { label: string; name: string; value: string }): JSX.Element {
  const timer = useRef(0);
  return (
    <input
      type="search"
      aria-label={label}
      placeholder={label}
      class={value ? "filtering" : ""}
      defaultValue={value}
      key={value === "" ? "empty" : "said"}
      onInput={(event) => {
        const typed = event.currentTarget.value;
        clearTimeout(timer.current);
        timer.current = window.setTimeout(() => say({ [name]: typed.trim() }), 250);
      }}
    />
  );
}

const COLUMNS: Column<Placed<WaitingRow>>[] = [
  {
    id: "verdict",
    title: "Verdict",
    width: 112,
    narrow: 102,
    cell: (each) => (each.gone ? <span class="faint">no more</span> : <Verdict verdict={each.row.verdict} />),
  },
  {
    id: "workload",
    title: "Workload",
    cell: ({ row }) => (
      <span class="two-lines">
        <span class="cut strong" title={row.workload}>
          {nameOf(row)}
        </span>
        <span class="cut faint">{[kindOf(row), row.namespace, row.user].filter(Boolean).join(" · ")}</span>
      </span>
    ),
  },
  {
    id: "queue",
    title: "Queue",
    width: 130,
    from: 860,
    cell: ({ row }) => (
      <span class="cut" title={row.queue}>
        {row.queue}
      </span>
    ),
  },
  {
    id: "why",
    title: "Why",
    from: 560,
    cell: ({ row }) => (
      <span class="two-lines" title={row.text}>
        <span class="cut code">{row.code || "not looked at yet"}</span>
        <span class="cut faint">{row.text}</span>
      </span>
    ),
  },
  {
    id: "age",
    title: "Waits",
    width: 92,
    narrow: 80,
    numeric: true,
    cell: ({ row }) => <Age since={row.waitingSince} />,
  },
  {
    id: "position",
    title: "Turn",
    width: 84,
    numeric: true,
    from: 1000,
    cell: ({ row }) =>
      row.position ? (
        <span title={`${row.position.ahead} are served before it`}>
          {row.position.ahead + 1} <span class="faint">of {count(row.position.of)}</span>
        </span>
      ) : (
        <span class="faint">–</span>
      ),
  },
  { id: "gpus", title: "GPUs", width: 66, numeric: true, from: 420, cell: ({ row }) => count(row.gpus) },
  {
    id: "pods",
    title: "Pods",
    width: 84,
    numeric: true,
    from: 940,
    cell: ({ row }) => (
      <span title={`${row.running} of ${row.pods} run; it needs ${row.minMember}`}>
        {row.running > 0 ? <span class="faint">{count(row.running)} of </span> : null}
        {count(row.pods)}
      </span>
    ),
  },
];

function Age({ since }: { since: number }): JSX.Element {
  const now = useClock();
  return <span>{span(now - since)}</span>;
}

function Opened({
  shard,
  name,
  row,
}: {
  shard: string;
  name: string;
  row: WaitingRow | undefined;
}): JSX.Element {
  const slash = name.indexOf("/");
  const said = { namespace: name.slice(0, slash), name: name.slice(slash + 1) };
  const asked = useAsked<Workload>(question("live/workload", { shard, ...said }), 8);
  return (
    <>
      {row && <Asks row={row} />}
      <p class="more-about">
        <a href={to("workload", said)}>All about this workload</a>
      </p>
      <Answered asked={asked} what="The answer">
        {(data) => <AnswerView workload={data} shard={shard} />}
      </Answered>
    </>
  );
}

function asksFor(row: WaitingRow): string {
  const parts = [
    row.gpus > 0 ? plural(row.gpus, "GPU") : "",
    row.cpuMillis > 0 ? `${cpus(row.cpuMillis)} CPUs` : "",
    row.memoryBytes > 0 ? bytes(row.memoryBytes) : "",
  ];
  return parts.filter(Boolean).join(", ") || "nothing that is counted";
}

export function Asks({ row }: { row: WaitingRow }): JSX.Element {
  const now = current().now;
  return (
    <Facts>
      <Fact name="Queue">
        <a href={to("queues", { queue: row.queue })}>{row.queue}</a>
      </Fact>
      {row.workload && <Fact name="Workload">{row.workload}</Fact>}
      <Fact name="Namespace">{row.namespace}</Fact>
      {row.user && <Fact name="User">{row.user}</Fact>}
      <Fact name="Asks for">{asksFor(row)}</Fact>
      <Fact name="Pods">
        {count(row.running)} of {count(row.pods)} run
        {row.minMember > 1 ? `, ${count(row.minMember)} at least together` : ""}
      </Fact>
      <Fact name="Priority">
        {signed(row.priority)}, {row.preemptible ? "preemptible" : "not preemptible"}
      </Fact>
      {row.waitingSince > 0 && <Fact name="Waits for">{span(now - row.waitingSince)}</Fact>}
    </Facts>
  );
}
