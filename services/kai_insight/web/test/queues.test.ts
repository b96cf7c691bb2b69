import { describe, expect, it } from "vitest";

import type { QueueColumns } from "../src/api/types";
import { leaves, longest, rows } from "../src/model/queues";

const GPU = {
  quota: [10, 4, -1, 2],
  limit: [-1, -1, -1, 8],
  fairShare: [12, 6, 4, 3],
  allocated: [13, 7, 4, 2],
  requested: [20, 9, 4, 2],
};
const QUEUES: QueueColumns = {
  name: ["top", "left", "right", "other"],
  displayName: ["Top", "", "", ""],
  parent: [-1, 0, 0, -1],
  priority: [0, 0, 0, 0],
  gpu: GPU,
  cpu: GPU,
  memory: GPU,
  waitingGroups: [1, 1, 0, 0],
  waitingGpus: [2, 2, 0, 0],
};

describe("queues", () => {
  it("stand below their parents", () => {
    expect(rows(QUEUES, "gpu", new Set()).map((each) => [each.shown, each.depth, each.leaf])).toEqual([
      ["Top", 0, false],
      ["left", 1, true],
      ["right", 1, true],
      ["other", 0, true],
    ]);
  });

  it("are not shown below one that is closed", () => {
    expect(rows(QUEUES, "gpu", new Set(["top"])).map((each) => each.name)).toEqual(["top", "other"]);
  });

  it("borrow what they hold beyond their quota, nothing where that is unlimited", () => {
    expect(rows(QUEUES, "gpu", new Set()).map((each) => each.borrowed)).toEqual([3, 3, 0, 0]);
  });

  it("have bars that hold all that is drawn in them", () => {
    expect(longest(rows(QUEUES, "gpu", new Set()))).toBe(13);
    expect(longest([])).toBeGreaterThan(0);
  });

  it("have work in leaves", () => expect(leaves(QUEUES)).toEqual([1, 2, 3]));
});
