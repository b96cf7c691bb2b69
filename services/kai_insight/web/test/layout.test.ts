import { describe, expect, it } from "vitest";

import { bounded, fitted, revealing, seen, zoomed } from "../src/map/camera";
import {
  type Box,
  type Input,
  type Layout,
  Places,
  columnsOf,
  layout,
  neighbour,
  slotAt,
} from "../src/map/layout";

const VIEW = { width: 1200, height: 700 };

/** Zones of racks of nodes. */
function site(zones: number, racks: number, nodes: number, gpus = 8): Input {
  const parent: number[] = [];
  const domain: number[] = [];
  for (let zone = 0; zone < zones; zone++) {
    const above = parent.push(-1) - 1;
    for (let rack = 0; rack < racks; rack++) {
      const here = parent.push(above) - 1;
      for (let node = 0; node < nodes; node++) domain.push(here);
    }
  }
  return { domains: { parent }, nodes: { domain, gpus: domain.map(() => gpus) } };
}

function boxes(made: Layout): Box[] {
  return Array.from(made.x, (x, node) => ({
    x,
    y: made.y[node],
    width: made.nodeWidth[node],
    height: made.nodeHeight[node],
  }));
}

const apart = (one: Box, other: Box): boolean =>
  one.x + one.width <= other.x ||
  other.x + other.width <= one.x ||
  one.y + one.height <= other.y ||
  other.y + other.height <= one.y;
const inside = (inner: Box, outer: Box): boolean =>
  inner.x >= outer.x &&
  inner.y >= outer.y &&
  inner.x + inner.width <= outer.x + outer.width + 1e-3 &&
  inner.y + inner.height <= outer.y + outer.height + 1e-3;

describe.each([
  ["one GPU", site(1, 1, 1, 1)],
  ["no domains", { domains: { parent: [] }, nodes: { domain: [-1, -1, -1], gpus: [8, 0, 3] } }],
  ["two zones", site(2, 3, 5)],
  [
    "nodes beside racks",
    { domains: { parent: [-1, 0] }, nodes: { domain: [0, 1, 1, -1], gpus: [8, 8, 16, 72] } },
  ],
])("the map of %s", (_, input) => {
  const made = layout(input, VIEW);
  const nodes = boxes(made);

  it("has no two nodes in one place, and each in its domain", () => {
    nodes.forEach((one, at) => nodes.slice(at + 1).forEach((other) => expect(apart(one, other)).toBe(true)));
    nodes.forEach((node, at) => {
      const box = made.domains.find((each) => each.domain === input.nodes.domain[at]);
      if (box) expect(inside(node, box)).toBe(true);
    });
    nodes.forEach((node) =>
      expect(inside(node, { x: 0, y: 0, width: made.width, height: made.height })).toBe(true),
    );
  });

  it("finds each GPU where it is drawn", () => {
    const places = new Places(made);
    input.nodes.gpus.forEach((gpus, node) => {
      for (let slot = 0; slot < gpus; slot++) {
        const x = made.x[node] + 2 + (slot % made.columns[node]) * 10 + 5;
        const y = made.y[node] + 8 + Math.floor(slot / made.columns[node]) * 10 + 5;
        expect([places.at(x, y), slotAt(made, node, gpus, x, y)]).toEqual([node, slot]);
      }
    });
  });
});

describe("a large map", () => {
  const made = layout(site(8, 40, 16), VIEW);

  it("fills its view, with domains inside each other", () => {
    const { scale } = fitted({ x: 0, y: 0, width: made.width, height: made.height }, VIEW);
    const used = (made.width * made.height * scale * scale) / (VIEW.width * VIEW.height);
    expect(used).toBeGreaterThan(0.6);
    expect(made.domains.map((each) => each.depth)).toEqual(
      [...made.domains.map((each) => each.depth)].sort((a, b) => a - b),
    );
  });

  it("has names of zones that can be read when all is seen", () => {
    const { scale } = fitted({ x: 0, y: 0, width: made.width, height: made.height }, VIEW);
    expect((made.domains[0].title * scale) / 13).toBeGreaterThan(1);
  });

  it("is walked through by arrows without an end in between", () => {
    const there = neighbour(made, 0, 1, 0);
    expect(made.x[there]).toBeGreaterThan(made.x[0]);
    expect(neighbour(made, there, -1, 0)).toBe(0);
    expect(neighbour(made, 0, -1, 0)).toBe(0);
  });

  it("tells only nodes near a window", () => {
    const found = new Places(made).within({ x: 0, y: 0, width: 100, height: 100 });
    expect(found).toContain(0);
    expect(found.length).toBeLessThan(60);
  });
});

describe("columns", () => {
  it.each([
    [0, 1],
    [1, 1],
    [4, 4],
    [8, 4],
    [16, 8],
    [72, 12],
  ])("of %d GPUs are %d", (gpus, columns) => expect(columnsOf(gpus)).toBe(columns));
});

describe("the camera", () => {
  const map = { width: 4000, height: 2000 };

  it("keeps the point under the pointer when it goes nearer", () => {
    const before = { scale: 0.3, x: 10, y: -40 };
    const after = zoomed(before, 2, { x: 300, y: 200 }, 0.01);
    expect((300 - after.x) / after.scale).toBeCloseTo((300 - before.x) / before.scale);
    expect(after.scale).toBeCloseTo(0.6);
  });

  it("goes neither too near nor too far", () => {
    expect(zoomed({ scale: 1, x: 0, y: 0 }, 1e9, { x: 0, y: 0 }, 0.1).scale).toBe(12);
    expect(zoomed({ scale: 1, x: 0, y: 0 }, 1e-9, { x: 0, y: 0 }, 0.1).scale).toBe(0.1);
  });

  it("never loses the map", () => {
    for (const x of [-1e6, 1e6]) {
      const window = seen(bounded({ scale: 0.3, x, y: 0 }, map, VIEW), VIEW);
      expect(window.x).toBeLessThan(map.width);
      expect(window.x + window.width).toBeGreaterThan(0);
    }
  });

  it("shows a box whole, and stays where that is seen already", () => {
    const box = { x: 3900, y: 100, width: 44, height: 30 };
    const moved = revealing({ scale: 1, x: 0, y: 0 }, box, VIEW);
    const window = seen(moved, VIEW);
    expect(inside(box, window)).toBe(true);
    expect(revealing(moved, box, VIEW)).toEqual(moved);
  });
});
