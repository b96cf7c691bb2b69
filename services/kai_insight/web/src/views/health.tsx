/** Whether the scheduler and its services are well, and how good the answers are. */

import type { JSX } from "preact";

import type { Coverage, Health } from "../api/types";
import { useAsked } from "../asked";
import { count, latency, percent, plural, span } from "../model/format";
import { question } from "../model/route";
import { type Head, SmallTable } from "../parts/small-table";
import { Answered } from "../parts/states";
import { useShard, useStore } from "../store";

const PROCESSES_HEADS: readonly Head[] = [
  { title: "Process" },
  { title: "State" },
  { title: "Leads" },
  { title: "For", numeric: true },
  { title: "Renewed", numeric: true },
  { title: "Release" },
];

const EVERY_SECONDS = 5;
const LATE_SECONDS = 10;

export function HealthView(): JSX.Element {
  const shard = useShard();
  const asked = useAsked<Health>(question("live/health", { shard }), EVERY_SECONDS);
  return (
    <div class="health">
      <h1 class="sr">Health</h1>
      <Answered asked={asked} what="Health">
        {(data) => (
          <>
            <Summary health={data} />
            <div class="cards">
              {data.shards.map((each) => (
                <ShardCard key={each.name} shard={each} />
              ))}
              {data.forecasts && <ForecastCard coverage={data.forecasts} />}
            </div>
            <Processes processes={data.processes} />
            <SetAside shards={data.shards} />
          </>
        )}
      </Answered>
    </div>
  );
}

/** In one line whether anything is wrong. */
function Summary({ health }: { health: Health }): JSX.Element {
  const troubles = [
    ...health.processes
      .filter((each) => each.late)
      .map((each) => `${each.name} has not renewed its Lease in time`),
    ...health.shards
      .filter((each) => each.differing > 0)
      .map(
        (each) => `${plural(each.differing, "cycle")} of ${each.name} came out otherwise when decided again`,
      ),
    ...health.shards
      .filter((each) => each.setAside.length > 0)
      .map(
        (each) =>
          `${plural(each.setAside.length, "object")} of ${each.name} ${each.setAside.length === 1 ? "is" : "are"} set aside`,
      ),
    ...health.shards
      .filter((each) => each.lag > LATE_SECONDS)
      .map((each) => `what is shown of ${each.name} lags by ${span(each.lag)}`),
    ...(health.store?.trouble ? [`the store: ${health.store.trouble}`] : []),
  ];
  if (troubles.length === 0)
    return (
      <p class="health-line health-well">
        <span aria-hidden="true">✓</span> All is well.
      </p>
    );
  return (
    <div class="health-line health-ill" role="status">
      <span aria-hidden="true">!</span>
      <ul>
        {troubles.map((each) => (
          <li key={each}>{each}</li>
        ))}
      </ul>
    </div>
  );
}

function ShardCard({ shard }: { shard: Health["shards"][number] }): JSX.Element {
  const all = shard.replayed;
  return (
    <section class="card" aria-label={`Shard ${shard.name}`}>
      <h2>Shard {shard.name}</h2>
      <dl class="figures">
        <div>
          <dt>cycles a minute</dt>
          <dd class="number">{shard.cycles ? count(Math.round(shard.cycles.perMinute)) : "–"}</dd>
        </div>
        <div>
          <dt>decided again in (p50)</dt>
          <dd class="number">{shard.cycles ? latency(shard.cycles.p50Seconds) : "–"}</dd>
        </div>
        <div>
          <dt>p99</dt>
          <dd class="number">{shard.cycles ? latency(shard.cycles.p99Seconds) : "–"}</dd>
        </div>
        <div>
          <dt>lag of this page</dt>
          <dd class="number">{latency(shard.lag)}</dd>
        </div>
        <div>
          <dt>decided again the same</dt>
          <dd class="number">
            {count(all - shard.differing)} <span class="faint">of {count(all)}</span>
          </dd>
        </div>
        <div>
          <dt>version</dt>
          <dd class="number">{shard.version || "none yet"}</dd>
        </div>
      </dl>
    </section>
  );
}

function ForecastCard({ coverage }: { coverage: Coverage }): JSX.Element {
  const rows = [
    ["as likely as not", coverage.p50, 50],
    ["in nine of ten", coverage.p90, 90],
  ] as const;
  return (
    <section class="card" aria-label="Forecasts">
      <h2>Forecasts that held</h2>
      {rows.map(([name, { held, of }, due]) => (
        <div key={name} class="coverage">
          <span>{name}</span>
          <span
            class="coverage-bar"
            role="img"
            aria-label={`${percent(held, of)} held, ${due} % would be right`}
          >
            <span class="coverage-held" style={{ width: `${of ? (100 * held) / of : 0}%` }} />
            <span class="coverage-due" style={{ left: `${due}%` }} />
          </span>
          <span class="number">
            {percent(held, of)}{" "}
            <span class="faint">
              {count(held)} of {count(of)}
            </span>
          </span>
        </div>
      ))}
      <p class="faint">The line is where a forecast that is neither too bold nor too careful ends.</p>
    </section>
  );
}

function Processes({ processes }: { processes: Health["processes"] }): JSX.Element {
  const now = useStore((state) => state.now);
  return (
    <section>
      <h2>Processes</h2>
      {processes.length === 0 && <p class="faint">No process holds a Lease that you may see.</p>}
      {processes.length > 0 && (
        <SmallTable label="Processes" heads={PROCESSES_HEADS}>
          {processes.map((each) => (
            <tr key={`${each.name} ${each.holder}`}>
              <th scope="row">{each.name}</th>
              <td>
                <span class={each.late ? "state-late" : "state-well"}>
                  <span aria-hidden="true">{each.late ? "!" : "✓"}</span> {each.late ? "late" : "in time"}
                </span>
              </td>
              <td class="cut" title={each.holder}>
                {each.holder}
              </td>
              <td class="number">{span(now - each.since)}</td>
              <td class="number">{span(now - each.renewed)} ago</td>
              <td>{each.release || "–"}</td>
            </tr>
          ))}
        </SmallTable>
      )}
    </section>
  );
}

function SetAside({ shards }: { shards: Health["shards"] }): JSX.Element | null {
  const all = shards.flatMap((shard) => shard.setAside.map((each) => ({ shard: shard.name, ...each })));
  if (all.length === 0) return null;
  return (
    <section>
      <h2>Set aside</h2>
      <p class="faint">One bad object does not stop the others; docs/faults.md tells what becomes of it.</p>
      <ul class="plain">
        {all.map((each) => (
          <li key={`${each.shard} ${each.kind} ${each.key}`}>
            <strong>
              {each.kind} {each.key}
            </strong>{" "}
            <span class="faint">({each.shard})</span>
            <span class="happening-why">{each.reason}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
