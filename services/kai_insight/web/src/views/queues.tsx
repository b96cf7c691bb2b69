/** Queues as a tree: what they may have, what they are due, what they hold, and how that was before. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import type { QueueColumns, QueueState, Rows } from "../api/types";
import { useAsked } from "../asked";
import { bytes, count, cpus, lined, plural, signed } from "../model/format";
import { type QueueRow, type Resource, longest, rows } from "../model/queues";
import { question } from "../model/route";
import { say, to } from "../nav";
import { Chart, type Curve } from "../parts/chart";
import { Icon } from "../parts/icons";
import { Split } from "../parts/split";
import { Answered, Empty, Failure, Loading } from "../parts/states";
import { Choice, Fact, Facts } from "../parts/words";
import { useShard, useStore } from "../store";

const RESOURCES: readonly (readonly [Resource, string])[] = [
  ["gpu", "GPUs"],
  ["cpu", "CPUs"],
  ["memory", "Memory"],
];

/** How the numbers of the table are written. */
function formatOf(resource: Resource, shown: readonly QueueRow[]): (value: number) => string {
  if (resource !== "gpu") return resource === "cpu" ? cpus : bytes;
  return lined(
    shown.flatMap(({ allocated, fairShare, quota, limit, borrowed }) => [
      allocated,
      fairShare,
      quota,
      limit,
      borrowed,
    ]),
  );
}

export function QueuesView(): JSX.Element {
  const queues = useStore((state) => {
    return state.cluster?.queues ?? null;
  });
  const problem = useStore((state) => state.clusterProblem);
  const live = useStore((state) => state.live);
  const said = useStore((state) => state.route.said);
  if (live && !live.sees.queues)
    return (
      <Empty title="You may not see this">
        <p>Queues are for those who may list queues.scheduling.run.ai.</p>
      </Empty>
    );
  if (!queues) return problem ? <Failure problem={problem} /> : <Loading what="Queues" />;
  if (queues.name.length === 0)
    return (
      <Empty title="There are no queues">
        <p>Work needs a queue to wait in; docs/queues.md tells how to make one.</p>
      </Empty>
    );
  const resource = RESOURCES.find(([each]) => each === said.resource)?.[0] ?? "gpu";
  const opened = said.queue ?? "";
  const index = queues.name.indexOf(opened);
  return (
    <Split
      title={queues.displayName[index] || opened}
      opened={opened}
      onClose={() => say({ queue: "" })}
      detail={index >= 0 ? <QueuePane key={opened} queues={queues} index={index} /> : null}
    >
      <h1 class="sr">Queues</h1>
      <div class="bar">
        <Choice
          label="Resource"
          options={RESOURCES}
          value={resource}
          onChange={(value) => say({ resource: value === "gpu" ? "" : value })}
        />
        <BarKey />
      </div>
      <QueueTable queues={queues} resource={resource} opened={opened} />
    </Split>
  );
}

function BarKey(): JSX.Element {
  return (
    <ul class="bar-key" aria-label="What the bars show">
      <li>
        <span class="key-allocated" aria-hidden="true" /> held within quota
      </li>
      <li>
        <span class="key-borrowed" aria-hidden="true" /> borrowed
      </li>
      <li>
        <span class="key-share" aria-hidden="true" /> fair share
      </li>
      <li>
        <span class="key-quota" aria-hidden="true" /> quota
      </li>
    </ul>
  );
}

function QueueTable({
  queues,
  resource,
  opened,
}: {
  queues: QueueColumns;
  resource: Resource;
  opened: string;
}): JSX.Element {
  const closedText = useStore((state) => state.route.said.closed ?? "");
  const closed = useMemo(() => new Set(closedText ? closedText.split(",") : []), [closedText]);
  const shown = rows(queues, resource, closed);
  const full = longest(shown);
  const format = formatOf(resource, shown);
  const toggle = (name: string): void => {
    const next = new Set(closed);
    if (!next.delete(name)) next.add(name);
    say({ closed: [...next].join(",") });
  };
  return (
    <div class="scroll" role="region" aria-label="Queues" tabIndex={0}>
      <table class="table queue-table">
        <thead>
          <tr>
            <th scope="col">Queue</th>
            <th scope="col" class="queue-bar-column">
              <span class="sr">Use</span>
            </th>
            <th scope="col" class="number">
              Held
            </th>
            <th scope="col" class="number">
              Fair share
            </th>
            <th scope="col" class="number">
              Quota
            </th>
            <th scope="col" class="number wide">
              Limit
            </th>
            <th scope="col" class="number mid">
              Borrowed
            </th>
            <th scope="col" class="number wide">
              Waiting (GPUs)
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((each) => (
            <tr
              key={each.name}
              class={`opens${each.name === opened ? " chosen" : ""}`}
              onClick={() => say({ queue: each.name === opened ? "" : each.name })}
            >
              <th scope="row">
                <span class="queue-name" style={{ paddingLeft: `${each.depth * 18}px` }}>
                  {each.leaf ? (
                    <span class="queue-leaf" aria-hidden="true" />
                  ) : (
                    <button
                      type="button"
                      class={`icon-button twist${closed.has(each.name) ? " twisted" : ""}`}
                      aria-expanded={!closed.has(each.name)}
                      aria-label={`Queues below ${each.shown}`}
                      onClick={(event) => {
                        event.stopPropagation();
                        toggle(each.name);
                      }}
                    >
                      <Icon name="down" />
                    </button>
                  )}
                  <button
                    type="button"
                    class="row-open"
                    aria-expanded={each.name === opened}
                    onClick={(event) => {
                      event.stopPropagation();
                      say({ queue: each.name === opened ? "" : each.name });
                    }}
                  >
                    <span class={`cut${each.leaf ? "" : " strong"}`} title={each.name}>
                      {each.shown}
                    </span>
                  </button>
                </span>
              </th>
              <td class="queue-bar-column">
                <QueueBar row={each} full={full} />
              </td>
              <td class="number strong">{format(each.allocated)}</td>
              <td class="number">{format(each.fairShare)}</td>
              <td class="number">{format(each.quota)}</td>
              <td class="number wide">{format(each.limit)}</td>
              <td class={`number mid${each.borrowed > 0 ? " borrowed" : " faint"}`}>
                {each.borrowed > 0 ? `+${format(each.borrowed)}` : "–"}
              </td>
              <td class="number wide">
                {each.waitingGroups > 0 ? (
                  <>
                    {count(each.waitingGroups)} <span class="faint">({count(each.waitingGpus)})</span>
                  </>
                ) : (
                  <span class="faint">–</span>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function QueueBar({ row, full }: { row: QueueRow; full: number }): JSX.Element {
  const share = (value: number): string => `${Math.min(100, (100 * value) / full)}%`;
  const within = row.quota < 0 ? row.allocated : Math.min(row.allocated, row.quota);
  return (
    <span class="queue-bar" aria-hidden="true">
      <span class="queue-held" style={{ width: share(within) }} />
      {row.borrowed > 0 && (
        <span class="queue-borrowed" style={{ left: share(within), width: share(row.borrowed) }} />
      )}
      {row.fairShare >= 0 && <span class="queue-share" style={{ left: share(row.fairShare) }} />}
      {row.quota > 0 && <span class="queue-quota" style={{ left: share(row.quota) }} />}
    </span>
  );
}

const SPANS: readonly (readonly [string, string])[] = [
  ["3600", "1 h"],
  ["21600", "6 h"],
  ["86400", "1 d"],
  ["604800", "7 d"],
];

function QueuePane({ queues, index }: { queues: QueueColumns; index: number }): JSX.Element {
  const history = useStore((state) => state.live?.history ?? false);
  const span = useStore((state) => state.route.said.span ?? "21600");
  const shard = useShard();
  const name = queues.name[index];
  const row = rows(queues, "gpu", new Set()).find((each) => each.index === index);
  return (
    <>
      {row && (
        <Facts>
          <Fact name="Name">{name}</Fact>
          {row.parent >= 0 && (
            <Fact name="Part of">
              <a href={to("queues", { queue: queues.name[row.parent] })}>
                {queues.displayName[row.parent] || queues.name[row.parent]}
              </a>
            </Fact>
          )}
          <Fact name="Priority">{signed(queues.priority[index])}</Fact>
          <Fact name="GPUs">
            {count(row.allocated)} held, {count(row.requested)} asked for, {count(row.fairShare)} due
          </Fact>
          <Fact name="Quota">
            {count(row.quota)}, at most {count(row.limit)}
            {row.borrowed > 0 && `, ${count(row.borrowed)} borrowed`}
          </Fact>
          <Fact name="Waits">
            {row.waitingGroups > 0 ? (
              <a href={to("waiting", row.leaf ? { queue: name } : {})}>
                {plural(row.waitingGroups, "workload")} for {plural(row.waitingGpus, "GPU")}
              </a>
            ) : (
              "nothing"
            )}
          </Fact>
        </Facts>
      )}
      <h3>Over time</h3>
      {history ? (
        <>
          <Choice
            label="Span"
            options={SPANS}
            value={span}
            onChange={(value) => say({ span: value === "21600" ? "" : value })}
          />
          <Past name={name} shard={shard} seconds={Number(span) || 21600} />
        </>
      ) : (
        <p class="faint">The past is told where insight keeps it.</p>
      )}
      <p>
        <a href={to("what-if", { change: "quota", target: name })}>What if its quota were another?</a>
      </p>
    </>
  );
}

const STEP_SECONDS = 30;

function Past({ name, shard, seconds }: { name: string; shard: string; seconds: number }): JSX.Element {
  const until = useStore((state) => Math.ceil(state.now / STEP_SECONDS) * STEP_SECONDS);
  const since = until - seconds;
  const path = question("queue-states", { queue: name, shard, since, until, limit: 10_000 });
  const asked = useAsked<Rows<QueueState>>(path, 0, `${name} ${seconds}`);
  return (
    <Answered asked={asked} what="The past of the queue">
      {(data) =>
        data.items.length > 0 ? (
          <Curves states={data.items} since={since} until={until} name={name} />
        ) : (
          <p class="faint">Nothing was written down in this time.</p>
        )
      }
    </Answered>
  );
}

function Curves({
  states,
  since,
  until,
  name,
}: {
  states: QueueState[];
  since: number;
  until: number;
  name: string;
}): JSX.Element {
  const [times, curves] = useMemo(() => curvesOf(states, until), [states, until]);
  return (
    <Chart
      label={`GPUs of ${name} over time`}
      times={times}
      curves={curves}
      height={230}
      since={since}
      until={until}
      format={count}
    />
  );
}

export function curvesOf(states: readonly QueueState[], until: number): [number[], Curve[]] {
  const sorted = [...states].sort((one, other) => one.at - other.at);
  const last = sorted[sorted.length - 1];
  const rows = [...sorted, { ...last, at: until }];
  const of = (value: (state: QueueState) => number): (number | null)[] =>
    rows.map((each) => (value(each) < 0 ? null : value(each)));
  return [
    rows.map((each) => each.at),
    [
      { label: "held", colour: "--curve-1", filled: true, values: of((each) => each.allocatedGpus) },
      { label: "asked for", colour: "--curve-2", values: of((each) => each.requestedGpus) },
      { label: "fair share", colour: "--curve-3", dashes: [6, 4], values: of((each) => each.fairShareGpus) },
      { label: "quota", colour: "--curve-4", dashes: [2, 3], values: of((each) => each.quotaGpus) },
    ],
  ];
}
