/**
 * Where everything on the map is: GPUs in nodes, nodes in racks, racks in zones, whatever the levels are.
 *
 * Lengths are in units of the map: a GPU is PITCH wide, whatever the zoom.
 */

export const PITCH = 10;
/** Pixels of a unit, at most, where all is seen: a single GPU is not to fill the screen. */
export const LARGEST_FIT = 5;
/** What is drawn of a GPU; the rest is the gap to the next one. */
export const CELL = 9;
/** Room for a node's name above its GPUs, and around them. */
export const NODE_TITLE = 6;
export const NODE_EDGE = 2;
const NODE_GAP = 4;
const DOMAIN_EDGE = 5;
/** Of each level of domains, counted from within: the gap between two of them. */
const DOMAIN_GAPS = [8, 18, 30];
/** Names of domains stand in strips so high: the widest ones can be read when all is seen. */
const TITLE_PIXELS = 17;
const INNER_TITLE = 9.5;
const ASPECTS = [0.4, 0.6, 0.8, 1, 1.4, 1.9, 2.6];

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface DomainBox extends Box {
  domain: number;
  depth: number;
  /** Height of the strip that its name stands in. */
  title: number;
}

export interface Layout {
  width: number;
  height: number;
  /** Of each node. */
  x: Float32Array;
  y: Float32Array;
  nodeWidth: Float32Array;
  nodeHeight: Float32Array;
  columns: Uint16Array;
  domains: DomainBox[];
}

export interface Input {
  domains: { parent: number[] };
  nodes: { domain: number[]; gpus: number[] };
}

/** A row of GPUs up to four, then two rows, and more where a node has very many. */
export function columnsOf(gpus: number): number {
  if (gpus <= 4) return Math.max(1, gpus);
  return gpus <= 16 ? Math.ceil(gpus / 2) : Math.ceil(Math.sqrt(gpus * 2));
}

interface Block {
  width: number;
  height: number;
  place: (x: number, y: number) => void;
}

/** Fills a view of this shape as well as it can. */
export function layout(input: Input, view: { width: number; height: number }): Layout {
  const count = input.nodes.gpus.length;
  const made: Layout = {
    width: 0,
    height: 0,
    x: new Float32Array(count),
    y: new Float32Array(count),
    nodeWidth: new Float32Array(count),
    nodeHeight: new Float32Array(count),
    columns: new Uint16Array(count),
    domains: [],
  };
  const nodes = input.nodes.gpus.map((gpus, node) => nodeBlock(made, node, gpus));
  const tree = new Tree(input, nodes, made);
  const aspects = tree.depth > 1 ? ASPECTS : [view.width / view.height];
  const pack = (): Block => {
    const tried = aspects.map((aspect) =>
      best(tree.blocks(-1, aspect), tree.depth ? DOMAIN_GAPS[2] : DOMAIN_GAPS[0], view),
    );
    return tried.reduce((one, other) => (fit(other, view) > fit(one, view) ? other : one));
  };
  // How high a strip has to be to be read, only the whole can tell.
  tree.title = TITLE_PIXELS / Math.min(LARGEST_FIT, fit(pack(), view));
  const chosen = pack();
  made.domains = [];
  chosen.place(0, 0);
  made.domains.sort((one, other) => one.depth - other.depth);
  made.width = chosen.width;
  made.height = chosen.height;
  return made;
}

function nodeBlock(made: Layout, node: number, gpus: number): Block {
  const columns = columnsOf(gpus);
  const rows = Math.max(1, Math.ceil(gpus / columns));
  const width = columns * PITCH + 2 * NODE_EDGE;
  const height = rows * PITCH + NODE_TITLE + 2 * NODE_EDGE;
  made.columns[node] = columns;
  made.nodeWidth[node] = width;
  made.nodeHeight[node] = height;
  return {
    width,
    height,
    place: (x, y) => {
      made.x[node] = x;
      made.y[node] = y;
    },
  };
}

/** The domains, from the widest to those that nodes are in. */
class Tree {
  readonly depth: number;
  /** Height of the widest domains' strips. */
  title = INNER_TITLE;
  private readonly children = new Map<number, number[]>();
  private readonly nodesOf = new Map<number, number[]>();

  constructor(
    input: Input,
    private readonly nodes: Block[],
    private readonly made: Layout,
  ) {
    input.domains.parent.forEach((parent, domain) => push(this.children, parent, domain));
    input.nodes.domain.forEach((domain, node) => push(this.nodesOf, domain, node));
    this.depth = this.levels(-1);
  }

  private levels(domain: number): number {
    const below = (this.children.get(domain) ?? []).map((child) => this.levels(child) + 1);
    return Math.max(0, ...below);
  }

  /** What is directly in a domain: domains first, then nodes that are in no smaller one. */
  blocks(domain: number, aspect: number): Block[] {
    const inner = (this.children.get(domain) ?? []).map((child) => this.block(child, aspect));
    return [...inner, ...(this.nodesOf.get(domain) ?? []).map((node) => this.nodes[node])];
  }

  private block(domain: number, aspect: number): Block {
    const levels = this.levels(domain);
    const inside = this.blocks(domain, aspect);
    const gap = levels === 0 ? NODE_GAP : DOMAIN_GAPS[Math.min(levels - 1, DOMAIN_GAPS.length - 1)];
    const packed = best(inside, gap, { width: levels === 0 ? 1.3 : aspect, height: 1 });
    const title = levels + 1 === this.depth ? this.title : Math.min(INNER_TITLE, this.title);
    const width = packed.width + 2 * DOMAIN_EDGE;
    const height = packed.height + 2 * DOMAIN_EDGE + title;
    return {
      width,
      height,
      place: (x, y) => {
        this.made.domains.push({ domain, depth: this.depth - levels, title, x, y, width, height });
        packed.place(x + DOMAIN_EDGE, y + DOMAIN_EDGE + title);
      },
    };
  }
}

function push(map: Map<number, number[]>, key: number, value: number): void {
  const known = map.get(key);
  if (known) known.push(value);
  else map.set(key, [value]);
}

function fit(block: { width: number; height: number }, view: { width: number; height: number }): number {
  return Math.min(view.width / block.width, view.height / block.height);
}

/** Shelves of the width that fills the goal's shape best. */
function best(blocks: Block[], gap: number, goal: { width: number; height: number }): Block {
  if (blocks.length === 0) return { width: 0, height: 0, place: () => undefined };
  const area = blocks.reduce((sum, each) => sum + (each.width + gap) * (each.height + gap), 0);
  const usual = Math.sqrt((area * goal.width) / goal.height);
  const widest = Math.max(...blocks.map((each) => each.width));
  const tried = [];
  for (let step = 0; step < 16; step++)
    tried.push(shelves(blocks, Math.max(widest, usual * (0.8 + 0.05 * step)), gap));
  return tried.reduce((one, other) => (fit(other, goal) > fit(one, goal) * 1.0001 ? other : one));
}

function shelves(blocks: Block[], most: number, gap: number): Block {
  const places: [number, number][] = [];
  let x = 0;
  let y = 0;
  let high = 0;
  let width = 0;
  for (const block of blocks) {
    if (x > 0 && x + block.width > most + 1e-6) {
      x = 0;
      y += high + gap;
      high = 0;
    }
    places.push([x, y]);
    width = Math.max(width, x + block.width);
    high = Math.max(high, block.height);
    x += block.width + gap;
  }
  return {
    width,
    height: y + high,
    place: (left, top) => {
      blocks.forEach((block, index) => block.place(left + places[index][0], top + places[index][1]));
    },
  };
}

/** The slot of a node that is at a point, counted within the node; -1 beside them. */
export function slotAt(made: Layout, node: number, gpus: number, x: number, y: number): number {
  const column = Math.floor((x - made.x[node] - NODE_EDGE) / PITCH);
  const row = Math.floor((y - made.y[node] - NODE_EDGE - NODE_TITLE) / PITCH);
  if (column < 0 || row < 0 || column >= made.columns[node]) return -1;
  const slot = row * made.columns[node] + column;
  return slot < gpus ? slot : -1;
}

/** Finds nodes by where they are, by a grid of buckets. */
export class Places {
  private readonly buckets = new Map<number, number[]>();
  private readonly across: number;
  private static readonly SIZE = 120;

  constructor(private readonly made: Layout) {
    this.across = Math.ceil(made.width / Places.SIZE) + 1;
    for (let node = 0; node < made.x.length; node++) {
      this.each(made.x[node], made.y[node], made.nodeWidth[node], made.nodeHeight[node], (bucket) =>
        push(this.buckets, bucket, node),
      );
    }
  }

  private each(x: number, y: number, width: number, height: number, visit: (bucket: number) => void): void {
    const size = Places.SIZE;
    for (let row = Math.max(0, Math.floor(y / size)); row <= Math.floor((y + height) / size); row++)
      for (let column = Math.max(0, Math.floor(x / size)); column <= Math.floor((x + width) / size); column++)
        if (column < this.across) visit(row * this.across + column);
  }

  /** The node at a point; -1 where there is none. */
  at(x: number, y: number): number {
    const { made } = this;
    let found = -1;
    this.each(x, y, 0, 0, (bucket) => {
      for (const node of this.buckets.get(bucket) ?? []) {
        const inside = x >= made.x[node] && x <= made.x[node] + made.nodeWidth[node];
        if (inside && y >= made.y[node] && y <= made.y[node] + made.nodeHeight[node]) found = node;
      }
    });
    return found;
  }

  /** All nodes that reach into a part of the map. */
  within(box: Box): number[] {
    const found = new Set<number>();
    this.each(box.x, box.y, box.width, box.height, (bucket) => {
      for (const node of this.buckets.get(bucket) ?? []) found.add(node);
    });
    return [...found];
  }
}

/** The nearest node in a direction, by where nodes' middles are; the same one where there is none. */
export function neighbour(made: Layout, from: number, right: number, down: number): number {
  const middle = (node: number): [number, number] => [
    made.x[node] + made.nodeWidth[node] / 2,
    made.y[node] + made.nodeHeight[node] / 2,
  ];
  const [x, y] = middle(from);
  let found = from;
  let least = Infinity;
  for (let node = 0; node < made.x.length; node++) {
    const [otherX, otherY] = middle(node);
    const along = (otherX - x) * right + (otherY - y) * down;
    const aside = Math.abs((otherX - x) * down) + Math.abs((otherY - y) * right);
    if (along <= 0.5) continue;
    const far = along + 3 * aside;
    if (far < least) {
      least = far;
      found = node;
    }
  }
  return found;
}
