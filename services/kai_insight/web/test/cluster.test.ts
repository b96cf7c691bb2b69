import { describe, expect, it } from "vitest";

import type { Frame, QueueColumns } from "../src/api/types";
import { changed, domainAddress, domainOf, holders, nodesOf, opened, use } from "../src/model/cluster";

const NONE = { quota: [0], limit: [0], fairShare: [0], allocated: [0], requested: [0] };
const QUEUES: QueueColumns = {
  name: ["team"],
  displayName: [""],
  parent: [-1],
  priority: [0],
  gpu: NONE,
  cpu: NONE,
  memory: NONE,
  waitingGroups: [0],
  waitingGpus: [0],
};

/** Node n1 with 2 GPUs of one group, n2 with a shared and a free one, n3 without any. */
function frame(): Frame {
  return {
    shard: "default",
    version: "1/1",
    numbering: "one",
    at: 5,
    models: [""],
    domains: { level: ["zone", "rack"], name: ["a", "r"], parent: [-1, 0] },
    nodes: {
      name: ["n1", "n2", "n3"],
      domain: [1, 1, -1],
      model: [0, 0, 0],
      gpus: [2, 2, 0],
      state: [0, 1, 0],
    },
    slots: [0, 0, -2, -1],
    shared: [
      [
        [1, 50],
        [-1, 25],
      ],
    ],
    groups: { queue: [0, 0], state: [0, 1], key: [7, 8] },
    queues: QUEUES,
    waiting: { groups: 0, gpus: 0 },
    hidden: { groups: 0, namespaces: 0 },
  };
}

const CHANGE = {
  version: "1/2",
  at: 6,
  groups: [],
  queues: null,
  waiting: { groups: 1, gpus: 2 },
  hidden: { groups: 3, namespaces: 2 },
};

describe("who holds what", () => {
  it("is read from the columns", () => {
    const cluster = opened(frame());
    expect([0, 2, 3].map((slot) => holders(cluster, slot))).toEqual([
      [[0, 100]],
      [
        [1, 50],
        [-1, 25],
      ],
      [],
    ]);
    expect(domainOf(cluster, 0)).toEqual(["a", "r"]);
    expect(domainOf(cluster, 2)).toEqual([]);
    expect(nodesOf(cluster, new Set([1]))).toEqual([1]);
  });

  it("is in a domain that its address tells from one of the same name elsewhere", () => {
    const domains = {
      level: ["zone", "zone", "rack", "rack"],
      name: ["a", "b", "r", "r"],
      parent: [-1, -1, 0, 1],
    };
    const cluster = opened({ ...frame(), domains });
    expect([0, 2, 3].map((domain) => domainAddress(cluster, domain))).toEqual(["a", "a/r", "b/r"]);
  });

  it("adds up, parts as parts", () => {
    const sums = use(opened(frame()));
    expect([...sums.used]).toEqual([2, 0.75, 0]);
    expect([...sums.free]).toEqual([0, 1, 0]);
    expect([...sums.byQueue]).toEqual([2.5, 0.25]);
    expect([sums.inUse, sums.total]).toEqual([2.75, 4]);
  });
});

describe("a change", () => {
  it("alters its nodes and names them", () => {
    const cluster = opened(frame());
    const dirty = changed(cluster, {
      ...CHANGE,
      nodes: [
        [
          1,
          0,
          [
            0,
            [
              [1, 30],
              [0, 70],
            ],
          ],
        ],
      ],
    });
    expect([...dirty]).toEqual([1]);
    expect(holders(cluster, 2)).toEqual([[0, 100]]);
    expect(holders(cluster, 3)).toEqual([
      [1, 30],
      [0, 70],
    ]);
    expect([cluster.nodeState[1], cluster.version, cluster.waiting.groups]).toEqual([0, "1/2", 1]);
    expect(cluster.hidden).toEqual({ groups: 3, namespaces: 2 });
  });

  it("of a group is one of all nodes that it is on", () => {
    const cluster = opened(frame());
    const dirty = changed(cluster, { ...CHANGE, nodes: [], groups: [[0, 0, 2, 7]] });
    expect([...dirty]).toEqual([0]);
    expect(cluster.groups.state[0]).toBe(2);
  });

  it("brings new groups at the end", () => {
    const cluster = opened(frame());
    changed(cluster, { ...CHANGE, nodes: [[1, 1, [2, 2]]], groups: [[2, 0, 1, 9]] });
    expect(cluster.groups.key).toEqual([7, 8, 9]);
    expect(holders(cluster, 3)).toEqual([[2, 100]]);
  });

  it("lets shared devices not grow for ever", () => {
    const cluster = opened(frame());
    for (let turn = 0; turn < 50; turn++) changed(cluster, { ...CHANGE, nodes: [[1, 0, [[[0, 40]], -1]]] });
    expect(cluster.shared.length).toBe(1);
  });

  it("with more devices than a node has changes no other node", () => {
    const cluster = opened(frame());
    changed(cluster, { ...CHANGE, nodes: [[0, 0, [-1, -1, 0, 0]]] });
    expect([...cluster.slots]).toEqual([-1, -1, -2, -1]);
  });
});
