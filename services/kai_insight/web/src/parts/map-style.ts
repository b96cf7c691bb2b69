/** The map's colours, as the style sheet says them. */

import type { ColourBy, Style } from "../map/paint";
import { picked } from "../map/picked";
import type { Cluster } from "../model/cluster";
import { leaves } from "../model/queues";

/** `pick`: name of a queue or a state, or what picks a workload; all else fades. */
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
    picked: pick ? picked(cluster, by, pick) : null,
  };
}
