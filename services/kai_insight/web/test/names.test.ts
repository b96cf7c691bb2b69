import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { ask } from "../src/api/client";
import type { GroupName } from "../src/api/types";
import type { Cluster } from "../src/model/cluster";
import { nameOf } from "../src/names";

vi.mock("../src/api/client", () => ({ ask: vi.fn() }));

const named = (key: number, name: string): GroupName => ({
  key,
  namespace: "team",
  name,
  workload: "",
  user: "",
  queue: "",
});
/** A cluster as far as names go by it. */
const numbered = (numbering: string): Cluster => ({ frame: { shard: "default", numbering } }) as Cluster;

/** The server has this numbering from now on. */
function serve(numbering: string, ...names: string[]): void {
  const items = names.map((name, index) => named(index + 1, name));
  vi.mocked(ask).mockImplementation(() => Promise.resolve({ numbering, items }));
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("window", globalThis);
  vi.mocked(ask).mockClear();
});
afterEach(async () => {
  await vi.runAllTimersAsync();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("the name of a group", () => {
  it("is asked for once, with those of others", async () => {
    serve("one", "alpha", "beta");
    const cluster = numbered("one");
    expect([nameOf(cluster, 1), nameOf(cluster, 2), nameOf(cluster, 3), nameOf(cluster, 0)]).toEqual(
      Array(4).fill(undefined),
    );
    await vi.runAllTimersAsync();
    expect([1, 2, 3].map((key) => nameOf(cluster, key)?.name)).toEqual(["alpha", "beta", undefined]);
    await vi.runAllTimersAsync();
    expect(vi.mocked(ask).mock.calls).toEqual([["live/groups?shard=default&keys=1%2C2%2C3"]]);
  });

  it("is another one where a server has begun anew", async () => {
    serve("two", "alpha");
    nameOf(numbered("two"), 1);
    await vi.runAllTimersAsync();
    serve("three", "gamma");
    expect(nameOf(numbered("three"), 1)).toBeUndefined();
    await vi.runAllTimersAsync();
    expect(nameOf(numbered("three"), 1)?.name).toBe("gamma");
  });

  it("is not learned from who has other keys", async () => {
    serve("five", "gamma");
    nameOf(numbered("four"), 1);
    await vi.runAllTimersAsync();
    expect(nameOf(numbered("four"), 1)).toBeUndefined();
  });

  it("is not learned from an answer that comes when there are other keys", async () => {
    let answer: (told: unknown) => void = () => undefined;
    vi.mocked(ask).mockImplementation(() => new Promise((resolve) => (answer = resolve)));
    nameOf(numbered("six"), 1);
    await vi.advanceTimersToNextTimerAsync();
    nameOf(numbered("seven"), 1);
    answer({ numbering: "six", items: [named(1, "alpha")] });
    serve("seven", "gamma");
    await vi.runAllTimersAsync();
    expect(nameOf(numbered("seven"), 1)?.name).toBe("gamma");
  });
});
