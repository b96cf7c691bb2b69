/** The changes that one can ask about: what each one wants to know. */

export type Target = "queue" | "workload" | "nodes" | "node";

export interface Asking {
  change: string;
  name: string;
  target: Target;
  targetName: string;
  /** What the value means; null where there is none. */
  value: string | null;
  example: string;
  /** Where only these can be. */
  values?: readonly string[];
}

export const ASKINGS: readonly Asking[] = [
  {
    change: "quota",
    name: "another quota of a queue",
    target: "queue",
    targetName: "Queue",
    value: "Quota",
    example: "gpu=8 cpu=64",
  },
  {
    change: "limit",
    name: "another limit of a queue",
    target: "queue",
    targetName: "Queue",
    value: "Limit",
    example: "gpu=unlimited",
  },
  {
    change: "weight",
    name: "another over-quota weight of a queue",
    target: "queue",
    targetName: "Queue",
    value: "Weight",
    example: "2",
  },
  {
    change: "delete-queue",
    name: "a queue deleted",
    target: "queue",
    targetName: "Queue",
    value: null,
    example: "",
  },
  {
    change: "priority",
    name: "another priority of a workload",
    target: "workload",
    targetName: "Workload",
    value: "Priority class",
    example: "high",
  },
  {
    change: "preemptibility",
    name: "another preemptibility of a workload",
    target: "workload",
    targetName: "Workload",
    value: "Preemptibility",
    example: "preemptible",
    values: ["preemptible", "non-preemptible", "semi-preemptible"],
  },
  {
    change: "minimum",
    name: "a smaller gang",
    target: "workload",
    targetName: "Workload",
    value: "Pods at least",
    example: "4",
  },
  {
    change: "delete",
    name: "a workload deleted",
    target: "workload",
    targetName: "Workload",
    value: null,
    example: "",
  },
  { change: "drain", name: "nodes drained", target: "nodes", targetName: "Nodes", value: null, example: "" },
  {
    change: "remove",
    name: "nodes taken away",
    target: "nodes",
    targetName: "Nodes",
    value: null,
    example: "",
  },
  {
    change: "nodes",
    name: "more nodes like one",
    target: "node",
    targetName: "Like node",
    value: "How many",
    example: "4",
  },
];

/** What is still missing before it can be asked; empty where nothing is. */
export function missing(asking: Asking, target: string, value: string): string {
  if (!target.trim()) return `${asking.targetName} is missing`;
  if (asking.value !== null && !value.trim()) return `${asking.value} is missing`;
  return "";
}

/** What was picked as a target: of nodes, one more. */
export function targeted(asking: Asking, before: string, picked: string): string {
  if (asking.target !== "nodes") return picked;
  const known = before
    .split(",")
    .slice(0, -1)
    .filter((each) => each.trim());
  return [...known, picked].join(",");
}
