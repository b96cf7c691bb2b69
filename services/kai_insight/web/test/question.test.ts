import { describe, expect, it } from "vitest";

import { ASKINGS, missing, targeted } from "../src/model/question";

const asking = (change: string) => {
  const found = ASKINGS.find((each) => each.change === change);
  if (!found) throw new Error(change);
  return found;
};

describe("a change that is asked about", () => {
  it("is each that the server knows, once", () => {
    expect(ASKINGS.map((each) => each.change).sort()).toEqual([
      "delete",
      "delete-queue",
      "drain",
      "limit",
      "minimum",
      "nodes",
      "preemptibility",
      "priority",
      "quota",
      "remove",
      "weight",
    ]);
  });

  it("tells what is missing", () => {
    expect(missing(asking("quota"), "", "8")).toBe("Queue is missing");
    expect(missing(asking("quota"), "vision", " ")).toBe("Quota is missing");
    expect(missing(asking("drain"), "n1", "")).toBe("");
  });

  it("can be about several nodes, and one of anything else", () => {
    expect(targeted(asking("drain"), "n1,n", "n2")).toBe("n1,n2");
    expect(targeted(asking("drain"), "n", "n1")).toBe("n1");
    expect(targeted(asking("delete"), "x", "team/pg")).toBe("team/pg");
  });
});
