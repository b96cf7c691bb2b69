/** The map's colours, as the style sheet says them. */

import type { ColourBy, Style } from "../map/paint";
import type { Cluster } from "../model/cluster";
import { STATES } from "../model/palette";
import { leaves } from "../model/queues";

/** `pick`: name of a queue or a state, or the key of a workload; all else fades. */
export function mapStyle(cluster: Cluster, by: ColourBy, dark: boolean, pick: string): Style {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string): string => style.getPropertyValue(name).trim();
  const queueLook = cluster.queues.name.map(() => 0);
  leaves(cluster.queues).forEach((index, place) => (queueLook[index] = place));
  return {
    by,
    theme: {
      dark,
      ground: of("--map-ground"),
      node: of("--map-node"),
      edge: of("--map-edge"),
      free: of("--map-free"),
      freeEdge: of("--map-free-edge"),
      ink: of("--ink"),
      faint: of("--faint"),
      warn: of("--warn"),
      bad: of("--bad"),
      accent: of("--accent"),
      unknown: of("--unknown"),
    },
    queueLook,
    picked: pick ? pickedGroups(cluster, by, pick) : null,
  };
}

/** Stands for groups whose queue is not told; no queue can be called so. */
export const NO_QUEUE = "(none)";

function pickedGroups(cluster: Cluster, by: ColourBy, pick: string): Set<number> {
  const found = new Set<number>();
  cluster.groups.key.forEach((key, group) => {
    const queue = cluster.groups.queue[group];
    const name = {
      queue: queue < 0 ? NO_QUEUE : cluster.queues.name[queue],
      state: STATES[cluster.groups.state[group]],
      workload: String(key),
    }[by];
    if (name === pick) found.add(group);
  });
  return found;
}
