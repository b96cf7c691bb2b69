/** What the server answers. Times are Unix seconds, memory is bytes, CPU is millicores; -1 is unlimited. */

export interface Shard {
  name: string;
  version: string;
  at: number;
  nodes: number;
  gpus: number;
  gpusUsed: number;
  pods: number;
  waiting: number;
  /** Why there is no state of it, or why it is an old one. */
  reason?: string;
}

export interface Live {
  release: string;
  source: "insight" | "kubeconfig";
  user: string;
  history: boolean;
  sees: { nodes: boolean; queues: boolean; allNamespaces: boolean };
  shards: Shard[];
}

export interface ResourceColumns {
  quota: number[];
  limit: number[];
  fairShare: number[];
  allocated: number[];
  requested: number[];
}

export interface QueueColumns {
  name: string[];
  displayName: string[];
  parent: number[];
  priority: number[];
  gpu: ResourceColumns;
  cpu: ResourceColumns;
  memory: ResourceColumns;
  waitingGroups: number[];
  waitingGpus: number[];
}

/** A group, and the percent of a device that it holds. */
export type Share = [group: number, percent: number];

export interface Frame {
  shard: string;
  version: string;
  /** Keys of groups mean the same groups wherever this is the same, and others elsewhere. */
  numbering: string;
  at: number;
  models: string[];
  domains: { level: string[]; name: string[]; parent: number[] };
  nodes: { name: string[]; domain: number[]; model: number[]; gpus: number[]; state: number[] };
  slots: number[];
  shared: Share[][];
  groups: { queue: number[]; state: number[]; key: number[] };
  queues: QueueColumns;
  waiting: { groups: number; gpus: number };
  hidden: { groups: number; namespaces: number };
}

export interface Change {
  version: string;
  at: number;
  nodes: [index: number, state: number, slots: (number | Share[])[]][];
  groups: [index: number, queue: number, state: number, key: number][];
  queues: QueueColumns | null;
  waiting: { groups: number; gpus: number };
  hidden: { groups: number; namespaces: number };
}

export interface GroupName {
  key: number;
  namespace: string;
  name: string;
  workload: string;
  user: string;
  queue: string;
}

export interface GroupNames {
  numbering: string;
  items: GroupName[];
}

export interface Found {
  kind: "node" | "group" | "queue";
  namespace: string;
  name: string;
  node: number | null;
  key: number | null;
}

export interface NodePod {
  namespace: string;
  name: string;
  podGroup: string;
  queue: string;
  gpus: number;
  devices: number[];
  portion: number | null;
  state: string;
  since: number;
  preemptible: boolean;
}

export interface NodeDetail {
  name: string;
  state: number;
  why: string;
  domain: string[];
  model: string;
  gpus: number;
  gpusUsed: number;
  taints: string[];
  cpu: { offered: number; allocated: number };
  memory: { offered: number; allocated: number };
  hidden: number;
  pods: NodePod[];
}

export interface Slots {
  shapes: number[];
  all: number[];
  domains: { index: number; slots: number[] }[];
}

export interface WaitingRow {
  namespace: string;
  name: string;
  workload: string;
  user: string;
  queue: string;
  created: number;
  waitingSince: number;
  pods: number;
  running: number;
  minMember: number;
  gpus: number;
  cpuMillis: number;
  memoryBytes: number;
  priority: number;
  preemptible: boolean;
  verdict: string;
  code: string;
  text: string;
  position: { ahead: number; of: number } | null;
}

export interface Waiting {
  items: WaitingRow[];
  more: boolean;
  hidden: number;
  total: number;
  verdicts: Partial<Record<string, number>>;
  codes: Partial<Record<string, number>>;
}

export interface Forecast {
  p50: number | null;
  p90: number | null;
  horizon: number;
  reason: string | null;
  basis: { courses: number; runs: number; coverage?: Coverage | null };
}

export interface Coverage {
  p50: { held: number; of: number };
  p90: { held: number; of: number };
}

export interface Answer {
  kind: string;
  namespace: string;
  name: string;
  podGroup: string;
  verdict: string;
  reason: { code: string; text: string; amounts: Record<string, unknown> } | null;
  stages: { stage: string; state: "passed" | "failed" | "not reached"; text: string }[];
  changes: { text: string; command: string | null; proven: boolean }[];
  forecast: Forecast | null;
  position: { queue: string; ahead: number; of: number } | null;
  evictions: { at: string; by?: string | null; action: string; why: string }[];
}

export interface WorkloadPod {
  name: string;
  state: string;
  node: string;
  devices: number[];
  gpus: number;
  since: number;
  subGroup: string;
}

export interface Workload {
  /** Null where it could not be worked out; `reason` says why. */
  answer: Answer | null;
  reason?: string;
  group: WaitingRow;
  pods: WorkloadPod[];
  more: boolean;
}

/** What would follow from a change. */
export interface Imagined {
  changes: { text: string; command: string | null }[];
  queues: { queue: string; before: ShareOfQueue | null; after: ShareOfQueue | null }[];
  workloads: {
    workload: string;
    podGroup: string;
    queue: string;
    before: PodCount | null;
    after: PodCount | null;
    reason: string;
  }[];
  events: WhatIfEvent[];
  evicted: string[];
  started: string[];
  deleted: string[];
  moreAfter: number | null;
  notes?: string[];
}

export interface PodCount {
  running: number;
  waiting: number;
}

export type Amounts = Record<"cpu" | "memory" | "gpu", number>;

export interface ShareOfQueue {
  quota: Amounts;
  limit: Amounts;
  overQuotaWeight: Amounts;
  fairShare: Amounts;
  allocated: Amounts;
  requested: Amounts;
}

export interface WhatIfEvent {
  after: number;
  what: string;
  pod: string;
  workload: string;
  node: string;
  by: string;
  action: string;
  why: string;
  anyway: boolean;
}

export interface Health {
  processes: {
    name: string;
    holder: string;
    since: number;
    renewed: number;
    late: boolean;
    release: string;
  }[];
  shards: {
    name: string;
    version: string;
    at: number;
    lag: number;
    cycles: { perMinute: number; p50Seconds: number; p99Seconds: number } | null;
    replayed: number;
    differing: number;
    setAside: { kind: string; key: string; reason: string }[];
  }[];
  forecasts: Coverage | null;
  store: { trouble: string } | null;
}

/** Rows of the past, as docs/history.md tells them. */
export interface Rows<T> {
  items: T[];
  more: boolean;
  hidden: number;
}

export interface Run {
  podUid: string;
  began: number;
  created: number;
  namespace: string;
  pod: string;
  podGroup: string;
  queue: string;
  workload: string;
  node: string;
  gpus: number;
  ended: number | null;
  ending: string;
}

export interface Taking {
  podUid: string;
  at: number;
  namespace: string;
  pod: string;
  podGroup: string;
  queue: string;
  action: string;
  gpus: number;
  forNamespace: string;
  forPodGroup: string;
  forQueue: string;
  message: string;
}

export interface Decision {
  namespace: string;
  podGroup: string;
  at: number;
  cycle: number;
  queue: string;
  outcome: string;
  reason: string;
  message: string;
}

export interface Cycle {
  at: number;
  cycle: number;
  binds: number;
  evictions: number;
  nominations: number;
  waiting: number;
}

export interface QueueState {
  queue: string;
  at: number;
  parent: string;
  quotaGpus: number;
  limitGpus: number;
  fairShareGpus: number;
  allocatedGpus: number;
  requestedGpus: number;
  allocatedCpuMillis: number;
  allocatedMemoryBytes: number;
}
