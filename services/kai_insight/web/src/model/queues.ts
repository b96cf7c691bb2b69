/** Queues as a tree, with what each one borrows. */

import type { QueueColumns, ResourceColumns } from "../api/types";

export type Resource = "gpu" | "cpu" | "memory";

export interface QueueRow {
  index: number;
  name: string;
  shown: string;
  depth: number;
  leaf: boolean;
  parent: number;
  quota: number;
  limit: number;
  fairShare: number;
  allocated: number;
  requested: number;
  /** What it holds beyond its quota; none where that is unlimited. */
  borrowed: number;
  waitingGroups: number;
  waitingGpus: number;
}

/** Parents before their children, siblings in the order in which they came; `closed` ones hide what is below. */
export function rows(queues: QueueColumns, resource: Resource, closed: ReadonlySet<string>): QueueRow[] {
  const children = childrenOf(queues);
  const found: QueueRow[] = [];
  const visit = (index: number, depth: number): void => {
    found.push(row(queues, queues[resource], index, depth, !children.has(index)));
    if (closed.has(queues.name[index])) return;
    for (const child of children.get(index) ?? []) visit(child, depth + 1);
  };
  for (const top of children.get(-1) ?? []) visit(top, 0);
  return found;
}

function childrenOf(queues: QueueColumns): Map<number, number[]> {
  const children = new Map<number, number[]>();
  queues.parent.forEach((parent, index) => {
    const known = children.get(parent);
    if (known) known.push(index);
    else children.set(parent, [index]);
  });
  return children;
}

function row(
  queues: QueueColumns,
  of: ResourceColumns,
  index: number,
  depth: number,
  leaf: boolean,
): QueueRow {
  const quota = of.quota[index];
  return {
    index,
    name: queues.name[index],
    shown: queues.displayName[index] || queues.name[index],
    depth,
    leaf,
    parent: queues.parent[index],
    quota,
    limit: of.limit[index],
    fairShare: of.fairShare[index],
    allocated: of.allocated[index],
    requested: of.requested[index],
    borrowed: quota < 0 ? 0 : Math.max(0, of.allocated[index] - quota),
    waitingGroups: queues.waitingGroups[index],
    waitingGpus: queues.waitingGpus[index],
  };
}

/** Queues that have none below them: those that work is in. */
export function leaves(queues: QueueColumns): number[] {
  const parents = new Set(queues.parent);
  return queues.name.flatMap((_, index) => (parents.has(index) ? [] : [index]));
}

/** What the longest bar of these rows stands for: never less than anything that is drawn. */
export function longest(rows: readonly QueueRow[]): number {
  return Math.max(1e-9, ...rows.flatMap((each) => [each.allocated, each.quota, each.fairShare]));
}
