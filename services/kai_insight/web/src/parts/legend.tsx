/** What the colours of the map stand for, with how much of each there is; a press lets all else fade. */

import type { JSX } from "preact";

import { useNames, nameOf } from "../names";
import type { ColourBy } from "../map/paint";
import { lookOf } from "../map/paint";
import { NO_QUEUE, pickOf } from "../map/picked";
import { type Cluster, type Use } from "../model/cluster";
import { count } from "../model/format";
import { NODE_STATES, STATES, look, stateLook } from "../model/palette";
import { leaves } from "../model/queues";
import { say } from "../nav";
import { useStore } from "../store";
import { mapStyle } from "./map-style";
import { Swatch } from "./words";

const MOST = 24;

interface Entry {
  key: string;
  name: string;
  gpus: number;
  look: ReturnType<typeof look>;
}

export function Legend({ cluster, used, by }: { cluster: Cluster; used: Use; by: ColourBy }): JSX.Element {
  const dark = useStore((state) => state.dark);
  const pick = useStore((state) => state.route.said.pick ?? "");
  useNames();
  const entries =
    by === "queue"
      ? queues(cluster, used, dark)
      : by === "state"
        ? states(used, dark)
        : picked(cluster, pick, dark);
  const shown = entries.slice(0, MOST);
  const rest = entries.slice(MOST).reduce((sum, each) => sum + each.gpus, 0);
  return (
    <ul class="legend" aria-label={`Colours by ${by}`}>
      {shown.map((each) => (
        <li key={each.key}>
          <button
            type="button"
            aria-pressed={pick === each.key}
            onClick={() => say({ pick: pick === each.key ? "" : each.key })}
          >
            <Swatch of={each.look} />
            <span class="cut">{each.name}</span>
            <span class="number faint">{count(Math.round(each.gpus * 10) / 10)}</span>
          </button>
        </li>
      ))}
      {rest > 0 && (
        <li class="faint">
          {entries.length - MOST} more with {count(Math.round(rest))}
        </li>
      )}
      {by === "workload" && entries.length === 0 && (
        <li class="faint">Each workload has a colour; press a GPU to see one alone.</li>
      )}
      <li class="legend-free">
        <span class="swatch swatch-free" aria-hidden="true" />
        free <span class="number faint">{count(Math.round(used.total - used.inUse))}</span>
      </li>
      <NodeStates cluster={cluster} />
    </ul>
  );
}

function queues(cluster: Cluster, used: Use, dark: boolean): Entry[] {
  const { queueLook } = mapStyle(cluster, "queue", dark, "");
  const none = used.byQueue[cluster.queues.name.length];
  const unknown = { colour: mapStyle(cluster, "queue", dark, "").theme.unknown, pattern: "plain" as const };
  const apart =
    none > 0 ? [{ key: NO_QUEUE, name: "no queue that you may see", gpus: none, look: unknown }] : [];
  const named = leaves(cluster.queues)
    .map((index) => ({
      key: cluster.queues.name[index],
      name: cluster.queues.displayName[index] || cluster.queues.name[index],
      gpus: used.byQueue[index],
      look: look(queueLook[index], dark),
    }))
    .filter((each) => each.gpus > 0)
    .sort((one, other) => other.gpus - one.gpus);
  return [...named, ...apart];
}

function states(used: Use, dark: boolean): Entry[] {
  return STATES.map((name, state) => ({
    key: name,
    name,
    gpus: used.byState[state],
    look: stateLook(state, dark),
  }));
}

function picked(cluster: Cluster, pick: string, dark: boolean): Entry[] {
  const group = cluster.groups.key.findIndex((_, each) => pickOf(cluster, each) === pick);
  if (group < 0) return [];
  const name = nameOf(cluster, cluster.groups.key[group]);
  const style = mapStyle(cluster, "workload", dark, "");
  return [
    {
      key: pick,
      name: name ? `${name.namespace} ${name.workload || name.name}` : "this workload",
      gpus: held(cluster, group),
      look: lookOf(cluster, style, group),
    },
  ];
}

function held(cluster: Cluster, group: number): number {
  let sum = 0;
  for (const slot of cluster.slots) {
    if (slot === group) sum += 1;
    else if (slot <= -2)
      for (const [each, part] of cluster.shared[-2 - slot]) if (each === group) sum += part / 100;
  }
  return sum;
}

function NodeStates({ cluster }: { cluster: Cluster }): JSX.Element {
  const counts = [0, 0, 0, 0];
  for (const state of cluster.nodeState) counts[state]++;
  return (
    <>
      {counts.map((number, state) =>
        state > 0 && number > 0 ? (
          <li key={state} class="legend-node">
            <span class={`node-sign node-sign-${state}`} aria-hidden="true" />
            {NODE_STATES[state]} <span class="number faint">{count(number)}</span>
          </li>
        ) : null,
      )}
    </>
  );
}
