import { describe, expect, it } from "vitest";

import { NO_QUEUE, pickOf, picked } from "../src/map/picked";
import type { ColourBy } from "../src/map/paint";
import type { Cluster } from "../src/model/cluster";

/** Groups 0 to 2: of a queue and running, of it and starting, of no queue that is told. */
const cluster = (numbering = "one"): Cluster =>
  ({
    frame: { numbering },
    queues: { name: ["top", "team"] },
    groups: { queue: [1, 1, -1], state: [0, 1, 0], key: [7, 8, 0] },
  }) as Cluster;

function found(of: Cluster, by: ColourBy, pick: string): number[] | null {
  const is = picked(of, by, pick);
  return is && [-1, 0, 1, 2].filter(is);
}

describe("what is picked", () => {
  it.each([
    ["queue", "team", [0, 1]],
    ["queue", NO_QUEUE, [-1, 2]],
    ["queue", "gone", null],
    ["state", "starting", [1]],
    ["state", "gone", null],
    ["workload", "one.8", [1]],
    ["workload", "one.9", null],
  ] as const)("by %s, %s", (by, pick, groups) => expect(found(cluster(), by, pick)).toEqual(groups));

  it("changes with the cluster", () => {
    const seen = cluster();
    const starting = picked(seen, "state", "starting");
    seen.groups.state[0] = 1;
    seen.groups.state[1] = 0;
    expect([0, 1].map((group) => starting?.(group))).toEqual([true, false]);
  });

  it("is nobody else's workload after a server has begun anew", () => {
    const pick = pickOf(cluster(), 1);
    expect(found(cluster(), "workload", pick)).toEqual([1]);
    expect(found(cluster("two"), "workload", pick)).toBeNull();
  });
});
