/** The state of a cluster as columns, and how a change alters it. */

import type { Change, Frame, QueueColumns, Share } from "../api/types";

/** What a slot says: free, held as a whole by a group (0 and more), or shared (-2 and less). */
export const FREE = -1;

export interface Cluster {
  readonly frame: Frame;
  version: string;
  at: number;
  /** Node i has the slots from offset[i] up to offset[i + 1]. */
  readonly offset: Int32Array;
  readonly slots: Int32Array;
  readonly shared: Share[][];
  readonly nodeState: Int8Array;
  readonly groups: { queue: number[]; state: number[]; key: number[] };
  queues: QueueColumns;
  waiting: { groups: number; gpus: number };
  hidden: { groups: number; namespaces: number };
}

export function opened(frame: Frame): Cluster {
  const offset = new Int32Array(frame.nodes.gpus.length + 1);
  frame.nodes.gpus.forEach((gpus, index) => (offset[index + 1] = offset[index] + gpus));
  return {
    frame,
    version: frame.version,
    at: frame.at,
    offset,
    slots: Int32Array.from(frame.slots),
    shared: frame.shared,
    nodeState: Int8Array.from(frame.nodes.state),
    groups: frame.groups,
    queues: frame.queues,
    waiting: frame.waiting,
    hidden: frame.hidden,
  };
}

/** Takes a change in; the nodes that look otherwise now. */
export function changed(cluster: Cluster, change: Change): Set<number> {
  const dirty = new Set<number>();
  cluster.version = change.version;
  cluster.at = change.at;
  cluster.waiting = change.waiting;
  cluster.hidden = change.hidden;
  if (change.queues) cluster.queues = change.queues;
  const groups = new Set<number>();
  for (const [index, queue, state, key] of change.groups) {
    cluster.groups.queue[index] = queue;
    cluster.groups.state[index] = state;
    cluster.groups.key[index] = key;
    groups.add(index);
  }
  for (const [node, state, slots] of change.nodes) {
    cluster.nodeState[node] = state;
    const first = cluster.offset[node];
    slots
      .slice(0, cluster.offset[node + 1] - first)
      .forEach((slot, index) => put(cluster, first + index, slot));
    dirty.add(node);
  }
  if (groups.size) nodesOf(cluster, groups).forEach((node) => dirty.add(node));
  return dirty;
}

function put(cluster: Cluster, at: number, slot: number | Share[]): void {
  if (typeof slot === "number") {
    cluster.slots[at] = slot;
    return;
  }
  // A device that is shared already keeps its place among the shared ones, so that they do not grow for ever.
  const before = cluster.slots[at];
  const place = before <= -2 ? -2 - before : cluster.shared.length;
  cluster.shared[place] = slot;
  cluster.slots[at] = -2 - place;
}

/** Who holds a device: nobody, one group as a whole, or several in parts. */
export function holders(cluster: Cluster, at: number): readonly Share[] {
  const slot = cluster.slots[at];
  if (slot === FREE) return [];
  return slot >= 0 ? [[slot, 100]] : cluster.shared[-2 - slot];
}

/** The nodes on which one of these groups holds something. */
export function nodesOf(cluster: Cluster, groups: ReadonlySet<number>): number[] {
  const found: number[] = [];
  for (let node = 0; node < cluster.nodeState.length; node++) {
    for (let at = cluster.offset[node]; at < cluster.offset[node + 1]; at++) {
      if (holders(cluster, at).some(([group]) => groups.has(group))) {
        found.push(node);
        break;
      }
    }
  }
  return found;
}

export interface Use {
  /** Of each node: devices that nobody holds a part of, and GPUs in use, parts as parts. */
  free: Int32Array;
  used: Float64Array;
  /** Of each queue: GPUs that its groups hold; of all whose queue is not told, at the end. */
  byQueue: Float64Array;
  byState: Float64Array;
  total: number;
  inUse: number;
}

export function use(cluster: Cluster): Use {
  const nodes = cluster.nodeState.length;
  const free = new Int32Array(nodes);
  const used = new Float64Array(nodes);
  const byQueue = new Float64Array(cluster.queues.name.length + 1);
  const byState = new Float64Array(4);
  let inUse = 0;
  for (let node = 0; node < nodes; node++) {
    for (let at = cluster.offset[node]; at < cluster.offset[node + 1]; at++) {
      if (cluster.slots[at] === FREE) free[node]++;
      for (const [group, part] of holders(cluster, at)) {
        const queue = group < 0 ? -1 : cluster.groups.queue[group];
        byQueue[queue < 0 ? byQueue.length - 1 : queue] += part / 100;
        byState[group < 0 ? 0 : cluster.groups.state[group]] += part / 100;
        used[node] += part / 100;
      }
    }
    inUse += used[node];
  }
  return { free, used, byQueue, byState, total: cluster.slots.length, inUse };
}

/** The names of a node's domains, the widest first. */
export function domainOf(cluster: Cluster, node: number): string[] {
  return domainPath(cluster, cluster.frame.nodes.domain[node]);
}

/** What an address calls a domain. Racks of two zones may have one name, so it says the zone as well. */
export function domainAddress(cluster: Cluster, domain: number): string {
  return domainPath(cluster, domain).join("/");
}

/** A domain and those around it by name, the outermost first. */
export function domainPath(cluster: Cluster, domain: number): string[] {
  const { name, parent } = cluster.frame.domains;
  const found: string[] = [];
  for (let at = domain; at >= 0; at = parent[at]) found.unshift(name[at]);
  return found;
}
