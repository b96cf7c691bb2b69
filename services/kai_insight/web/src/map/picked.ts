/** Which groups are picked by what the address says; all else fades. */

import type { Cluster } from "../model/cluster";
import { STATES } from "../model/palette";
import type { ColourBy } from "./paint";

/** Stands for groups whose queue is not told; no queue can be called so. */
export const NO_QUEUE = "(none)";

/** What picks one workload: its key, for as long as that is its own. */
export function pickOf(cluster: Cluster, group: number): string {
  return `${cluster.frame.numbering}.${cluster.groups.key[group]}`;
}

/** Tells of a group, as the cluster is then, whether it is picked; null where there is nothing of that name. */
export function picked(cluster: Cluster, by: ColourBy, pick: string): ((group: number) => boolean) | null {
  const { groups } = cluster;
  if (by === "queue") {
    const queue = cluster.queues.name.indexOf(pick);
    if (queue < 0 && pick !== NO_QUEUE) return null;
    return (group) => (group < 0 ? -1 : groups.queue[group]) === queue;
  }
  if (by === "state") {
    const state = STATES.findIndex((each) => each === pick);
    return state < 0 ? null : (group) => (group < 0 ? 0 : groups.state[group]) === state;
  }
  const workload = groups.key.findIndex((_, group) => pickOf(cluster, group) === pick);
  return workload < 0 ? null : (group) => group === workload;
}
