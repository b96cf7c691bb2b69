import { describe, expect, it } from "vitest";

import type { Decision, Taking } from "../src/api/types";
import { happenings, lanes } from "../src/model/lanes";

const decision = (at: number, outcome: string, queue = "team"): Decision => ({
  namespace: "n",
  podGroup: "pg",
  at,
  cycle: 1,
  queue,
  outcome,
  reason: "",
  message: outcome === "Unschedulable" ? "no room" : "",
});
const taking = (at: number): Taking => ({
  podUid: "u",
  at,
  namespace: "n",
  pod: "p",
  podGroup: "pg",
  queue: "team",
  action: "reclaim",
  gpus: 1,
  forNamespace: "m",
  forPodGroup: "other",
  forQueue: "others",
  message: "",
});

describe("what happened", () => {
  const all = happenings(
    [decision(10, "Placed"), decision(30, "Unschedulable"), decision(40, "Gone")],
    [taking(20)],
  );

  it("is told newest first, with its cause; what only went is not", () => {
    expect(all.map((each) => [each.at, each.kind, each.text])).toEqual([
      [30, "wait", "no room"],
      [20, "evict", "reclaim for other of others"],
      [10, "bind", "got its place"],
    ]);
  });

  it("is no place yet for who waits until others are gone", () => {
    const [pipelined] = happenings([decision(10, "Pipelined")], []);
    expect([pipelined.kind, pipelined.text]).toEqual(["wait", "waits"]);
  });

  it("stands in the lane of its queue, and in its time only", () => {
    const drawn = lanes([...all, ...happenings([decision(15, "Placed", "a")], [])], 12, 100, 10);
    expect(drawn.map((lane) => [lane.queue, lane.binds, lane.evictions, lane.waits])).toEqual([
      ["a", 1, 0, 0],
      ["team", 0, 1, 1],
    ]);
  });

  it("is one mark where there is no room for two", () => {
    const many = happenings(
      Array.from({ length: 100 }, (_, at) => decision(at, "Placed")),
      [],
    );
    const [lane] = lanes(many, 0, 100, 10);
    expect(lane.marks.length).toBe(10);
    expect(lane.binds).toBe(100);
    expect(lane.marks.every((mark) => mark.place > 0 && mark.place < 1)).toBe(true);
  });

  it("has a place at the very end of the time, too", () => {
    const [lane] = lanes(happenings([decision(100, "Placed")], []), 0, 100, 10);
    expect(lane.marks[0].place).toBeLessThan(1);
  });
});
