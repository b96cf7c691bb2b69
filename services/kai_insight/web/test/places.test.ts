import { describe, expect, it } from "vitest";

import { arranged, kept } from "../src/model/places";

interface Row {
  name: string;
  gpus: number;
}
const row = (name: string, gpus = 1): Row => ({ name, gpus });
const key = (of: Row): string => of.name;

describe("rows keep their places", () => {
  const before = arranged([row("a"), row("b"), row("c")]);

  it("with new values where they were", () => {
    const now = kept(before, [row("c", 3), row("a", 2), row("b")], key);
    expect(now.rows.map((each) => [each.row.name, each.row.gpus])).toEqual([
      ["a", 2],
      ["b", 1],
      ["c", 3],
    ]);
    expect(now.moved).toBe(true);
  });

  it("also when they are gone, and say so", () => {
    const now = kept(before, [row("a"), row("c")], key);
    expect(now.rows.map((each) => each.gone)).toEqual([false, true, false]);
    expect([now.came, now.went, now.moved]).toEqual([0, 1, false]);
  });

  it("new ones stand at the end, over any number of answers", () => {
    let now = before;
    for (const name of ["x", "y"]) now = kept(now, [row(name), ...now.rows.map((each) => each.row)], key);
    expect(now.rows.map((each) => each.row.name)).toEqual(["a", "b", "c", "x", "y"]);
    expect([now.came, now.went]).toEqual([2, 0]);
  });

  it("one that was gone and is back is where it was", () => {
    const gone = kept(before, [row("a")], key);
    const back = kept(gone, [row("a"), row("b")], key);
    expect(back.rows.map((each) => [each.row.name, each.gone])).toEqual([
      ["a", false],
      ["b", false],
      ["c", true],
    ]);
  });
});
