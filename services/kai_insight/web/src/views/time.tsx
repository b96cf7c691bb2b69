/** What was decided, as a lane for each queue; one can go back to any moment of it. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import type { Cycle, Decision, QueueState, Rows, Taking } from "../api/types";
import { useAsked } from "../asked";
import { count, lined, moment, plural, short } from "../model/format";
import { type Happening, type Kind, type Lane, type Mark, happenings, lanes } from "../model/lanes";
import { question } from "../model/route";
import { say, to } from "../nav";
import { Chart } from "../parts/chart";
import { useSize } from "../parts/size";
import { type Head, SmallTable } from "../parts/small-table";
import { Answered, Empty, Hidden } from "../parts/states";
import { Choice } from "../parts/words";
import { useClock, useShard, useStore } from "../store";

const HELD_HEADS: readonly Head[] = [
  { title: "Queue" },
  { title: "Held", numeric: true },
  { title: "Fair share", numeric: true },
  { title: "Asked for", numeric: true },
];

const SPANS: readonly (readonly [string, string])[] = [
  ["900", "15 m"],
  ["3600", "1 h"],
  ["21600", "6 h"],
  ["86400", "1 d"],
];
const USUAL = "3600";
const STEP_SECONDS = 10;
const MOST = 10_000;
const MARK_PIXELS = 9;
const SHOWN = 60;
const NONE: Cycle[] = [];
const SIGNS: Record<Kind, string> = { bind: "●", evict: "▼", wait: "○" };
const WORDS: Record<Kind, string> = { bind: "placed", evict: "evicted", wait: "had to wait" };

export function TimeView(): JSX.Element {
  const history = useStore((state) => state.live?.history ?? false);
  if (!history)
    return (
      <Empty title="Nobody keeps the past here">
        <p>
          Insight does, where it runs: <code>kai local up --history</code>, or{" "}
          <code>insight.enabled=true</code> of the chart.
        </p>
      </Empty>
    );
  return <Lanes />;
}

function Lanes(): JSX.Element {
  const said = useStore((state) => state.route.said);
  const { namespace = "" } = said;
  const shard = useShard();
  const seconds = Number(said.span ?? USUAL) || Number(USUAL);
  const until = useStore((state) => Number(said.until) || Math.ceil(state.now / STEP_SECONDS) * STEP_SECONDS);
  const since = until - seconds;
  const window = { shard, namespace, since, until, limit: MOST };
  const subject = `${shard} ${namespace} ${seconds} ${said.until ?? ""}`;
  const decisions = useAsked<Rows<Decision>>(question("decisions", window), 0, subject);
  const takings = useAsked<Rows<Taking>>(question("evictions", window), 0, subject);
  const cycles = useAsked<Rows<Cycle>>(question("cycles", { shard, since, until, limit: MOST }), 0, subject);
  const all = useMemo(
    () => happenings(decisions.data?.items ?? [], takings.data?.items ?? []),
    [decisions.data, takings.data],
  );
  return (
    <div class="time">
      <h1 class="sr">Time</h1>
      <TimeBar until={until} seconds={seconds} />
      <Answered asked={decisions} what="What was decided">
        {(data) => (
          <>
            <Drawn all={all} cycles={cycles.data?.items ?? NONE} since={since} until={until} />
            {(data.more || takings.data?.more) && (
              <p class="faint foot">Only the newest {count(MOST)} of this time; look at less of it.</p>
            )}
            {takings.problem && (
              <p class="faint foot" role="status">
                Who was evicted is not shown: {takings.problem.message}
              </p>
            )}
            <Hidden count={data.hidden} what="decisions were made about workloads" />
            <Moment all={all} since={since} until={until} shard={shard} />
          </>
        )}
      </Answered>
    </div>
  );
}

function TimeBar({ until, seconds }: { until: number; seconds: number }): JSX.Element {
  const following = useStore((state) => !state.route.said.until);
  const now = useStore((state) => state.now);
  const back = (by: number): void => {
    const next = Math.round(until + by);
    say({ until: next >= now ? "" : String(next), at: "" });
  };
  return (
    <div class="bar">
      <Choice
        label="Span"
        options={SPANS}
        value={String(seconds)}
        onChange={(value) => say({ span: value === USUAL ? "" : value, at: "" })}
      />
      <div class="choice" role="group" aria-label="Move in time">
        <button type="button" onClick={() => back(-seconds / 2)}>
          ← Earlier
        </button>
        <button type="button" disabled={following} onClick={() => back(seconds / 2)}>
          Later →
        </button>
        <button type="button" aria-pressed={following} onClick={() => say({ until: "", at: "" })}>
          Now
        </button>
      </div>
      <span class="faint number">
        {moment(until - seconds, now)} – {following ? "now" : moment(until, now)}
      </span>
      <ul class="bar-key" aria-label="What the marks show">
        {(["bind", "wait", "evict"] as const).map((kind) => (
          <li key={kind}>
            <span class={`mark-key mark-${kind}`} aria-hidden="true">
              {SIGNS[kind]}
            </span>{" "}
            {WORDS[kind]}
          </li>
        ))}
      </ul>
    </div>
  );
}

function WaitingCurve(props: {
  cycles: Cycle[];
  since: number;
  until: number;
  edges: readonly [number, number];
}): JSX.Element {
  const { cycles, since, until, edges } = props;
  const [times, curves] = useMemo(() => {
    const told = [...cycles].sort((one, other) => one.at - other.at);
    const last = told.at(-1);
    // As many as then wait until something is decided.
    const sorted = last ? [...told, { ...last, at: Math.max(last.at, until) }] : told;
    return [
      sorted.map((each) => each.at),
      [
        {
          label: "workloads that wait",
          colour: "--curve-2",
          filled: true,
          values: sorted.map((each) => each.waiting),
        },
      ],
    ];
  }, [cycles, until]);
  return (
    <Chart
      label="Workloads that wait over time"
      times={times}
      curves={curves}
      height={96}
      since={since}
      until={until}
      format={count}
      edges={edges}
    />
  );
}

function Drawn(props: { all: Happening[]; cycles: Cycle[]; since: number; until: number }): JSX.Element {
  const { all, cycles, since, until } = props;
  const [element, size] = useSize<HTMLDivElement>();
  const label = size.width < 600 ? 96 : 168;
  const total = size.width < 600 ? 0 : 150;
  const width = Math.max(60, size.width - label - total);
  const steps = Math.max(8, Math.floor(width / MARK_PIXELS));
  const drawn = useMemo(() => lanes(all, since, until, steps), [all, since, until, steps]);
  const at = useStore((state) => Number(state.route.said.at) || 0);
  const now = useStore((state) => state.now);
  const chosen = at >= since && at <= until ? at : until;
  const place = (chosen - since) / (until - since);
  return (
    <div class="lanes" ref={element}>
      {cycles.length > 0 && (
        <div class="lane-curve">
          <span class="lane-name">waiting</span>
          <WaitingCurve cycles={cycles} since={since} until={until} edges={[label, total]} />
        </div>
      )}
      {drawn.length === 0 && <p class="faint lanes-none">Nothing was decided in this time.</p>}
      {drawn.map((lane) => (
        <LaneRow key={lane.queue} lane={lane} label={label} width={width} total={total} place={place} />
      ))}
      <div class="scrub">
        <label class="scrub-label" style={{ width: `${label}px` }} for="scrub">
          Moment
        </label>
        <input
          id="scrub"
          type="range"
          min={0}
          max={1000}
          step={1}
          style={{ width: `${width}px` }}
          value={Math.round(place * 1000)}
          aria-valuetext={moment(chosen, now)}
          onInput={(event) => {
            const next = since + (Number(event.currentTarget.value) / 1000) * (until - since);
            say({ at: next >= until - 1 ? "" : String(Math.round(next)) });
          }}
        />
        <output class="scrub-at">{at ? moment(chosen, now) : "now"}</output>
      </div>
    </div>
  );
}

function LaneRow(props: {
  lane: Lane;
  label: number;
  width: number;
  total: number;
  place: number;
}): JSX.Element {
  const { lane, label, width, total, place } = props;
  const sum = [
    lane.binds ? plural(lane.binds, "placed", "placed") : "",
    lane.waits ? `${count(lane.waits)} had to wait` : "",
    lane.evictions ? `${count(lane.evictions)} evicted` : "",
  ].filter(Boolean);
  return (
    <div class="lane">
      <span class="lane-name cut" style={{ width: `${label}px` }} title={lane.queue}>
        <a href={to("queues", { queue: lane.queue })}>{lane.queue || "no queue"}</a>
      </span>
      <svg
        class="lane-marks"
        width={width}
        height={34}
        role="img"
        aria-label={`${lane.queue}: ${sum.join(", ")}`}
      >
        <line x1={0} x2={width} y1={17} y2={17} class="lane-line" />
        <line x1={place * width} x2={place * width} y1={0} y2={34} class="lane-cursor" />
        {lane.marks.map((mark) => (
          <MarkSign key={`${mark.kind} ${mark.place}`} mark={mark} x={mark.place * width} />
        ))}
      </svg>
      {total > 0 && (
        <span class="lane-sum faint number" style={{ width: `${total}px` }}>
          <span class="mark-bind">● {count(lane.binds)}</span>{" "}
          <span class="mark-wait">○ {count(lane.waits)}</span>{" "}
          <span class="mark-evict">▼ {count(lane.evictions)}</span>
        </span>
      )}
    </div>
  );
}

function MarkSign({ mark, x }: { mark: Mark; x: number }): JSX.Element {
  const size = Math.min(4.4, 2.4 + Math.log2(mark.happenings.length) * 0.55);
  const first = mark.happenings[0];
  const title = `${count(mark.happenings.length)} ${WORDS[mark.kind]}: ${short(first.podGroup)}${mark.happenings.length > 1 ? " and others" : `, ${first.text}`}`;
  const open = (): void => say({ at: String(Math.round(first.at)) });
  if (mark.kind === "bind")
    return (
      <circle cx={x} cy={9} r={size} class="sign-bind" onClick={open}>
        <title>{title}</title>
      </circle>
    );
  if (mark.kind === "wait")
    return (
      <circle cx={x} cy={17} r={size - 0.5} class="sign-wait" onClick={open}>
        <title>{title}</title>
      </circle>
    );
  return (
    <path
      d={`M${x - size} ${26 - size}h${2 * size}l${-size} ${1.8 * size}z`}
      class="sign-evict"
      onClick={open}
    >
      <title>{title}</title>
    </path>
  );
}

/** What there was at the chosen moment: what queues held, and what had been decided before. */
function Moment(props: { all: Happening[]; since: number; until: number; shard: string }): JSX.Element {
  const { all, since, until, shard } = props;
  const said = useStore((state) => Number(state.route.said.at) || 0);
  const at = said >= since && said <= until ? said : until;
  const earlier = useMemo(() => all.filter((each) => each.at <= at + 1), [all, at]);
  return (
    <div class="moment">
      <section>
        <h2>{said ? "Decided until then" : "Decided last"}</h2>
        <Happenings earlier={earlier} />
      </section>
      <section>
        <h2>{said ? "What queues held then" : "What queues hold"}</h2>
        <Held at={at} shard={shard} chosen={said > 0} />
      </section>
    </div>
  );
}

function Happenings({ earlier }: { earlier: Happening[] }): JSX.Element {
  const now = useClock();
  if (earlier.length === 0) return <p class="faint">Nothing in this time.</p>;
  return (
    <ol class="happenings">
      {earlier.slice(0, SHOWN).map((each, index) => (
        <li key={`${each.at} ${each.podGroup} ${each.kind} ${index}`}>
          <time class="number faint">{moment(each.at, now)}</time>
          <span class={`mark-key mark-${each.kind}`} aria-hidden="true">
            {SIGNS[each.kind]}
          </span>
          <span class="happening">
            <a
              class="strong"
              href={to("workload", { namespace: each.namespace, name: each.podGroup })}
              title={each.podGroup}
            >
              {short(each.podGroup) || "a pod"}
            </a>{" "}
            <span class="faint">
              {each.queue} · {WORDS[each.kind]}
            </span>
            {each.kind !== "bind" && (
              <span class="happening-why" title={each.text}>
                {each.text}
              </span>
            )}
          </span>
        </li>
      ))}
    </ol>
  );
}

function Held({ at, shard, chosen }: { at: number; shard: string; chosen: boolean }): JSX.Element {
  const step = Math.ceil(at / 30) * 30;
  const path = question("queue-states", { shard, since: step - 3700, until: step, limit: MOST });
  // What was of another moment stands for none that somebody chose.
  const asked = useAsked<Rows<QueueState>>(path, 0, chosen ? path : shard);
  return (
    <Answered asked={asked} what="What queues held">
      {(data) => {
        const latest = latestOf(data.items, at);
        if (latest.length === 0) return <p class="faint">Nothing was written down in the hour before.</p>;
        const gpus = lined(
          latest.flatMap((each) => [each.allocatedGpus, each.fairShareGpus, each.requestedGpus]),
        );
        return (
          <SmallTable label="What queues held" heads={HELD_HEADS}>
            {latest.map((each) => (
              <tr key={each.queue}>
                <th scope="row" class="cut">
                  {each.queue}
                </th>
                <td class="number strong">{gpus(each.allocatedGpus)}</td>
                <td class="number">{gpus(each.fairShareGpus)}</td>
                <td class="number">{gpus(each.requestedGpus)}</td>
              </tr>
            ))}
          </SmallTable>
        );
      }}
    </Answered>
  );
}

/** Of each queue the last state before a moment, by name. */
export function latestOf(states: readonly QueueState[], at: number): QueueState[] {
  const found = new Map<string, QueueState>();
  for (const each of states) {
    const known = found.get(each.queue);
    if (each.at <= at && (!known || each.at > known.at)) found.set(each.queue, each);
  }
  return [...found.values()].sort((one, other) => one.queue.localeCompare(other.queue));
}
