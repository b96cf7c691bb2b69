/** Draws nodes, at any scale, onto the view or onto a bitmap of the whole map. */

import { type Cluster, FREE, holders } from "../model/cluster";
import { type Look, type Pattern, look, stateLook } from "../model/palette";
import { CELL, type Layout, NODE_EDGE, NODE_TITLE, PITCH } from "./layout";

export type ColourBy = "queue" | "workload" | "state";

export interface Theme {
  dark: boolean;
  ground: string;
  node: string;
  edge: string;
  free: string;
  freeEdge: string;
  ink: string;
  faint: string;
  warn: string;
  bad: string;
  accent: string;
  unknown: string;
}

export interface Style {
  by: ColourBy;
  theme: Theme;
  /** Of each queue: which look is its own. */
  queueLook: readonly number[];
  /** Whether a group is one that everything else fades beside; nobody fades where it is null. */
  picked: ((group: number) => boolean) | null;
}

type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** Cells smaller than this many pixels have no patterns, gaps of their own, or edges. */
const PLAIN = 5;
const FADED = 0.18;
/** Workloads get one of so many looks, by their number. */
const WORKLOAD_LOOKS = 16;

export function lookOf(cluster: Cluster, style: Style, group: number): Look {
  const { theme } = style;
  const hidden = group < 0 || cluster.groups.key[group] === 0;
  if (style.by === "state") return stateLook(group < 0 ? 0 : cluster.groups.state[group], theme.dark);
  if (hidden) return { colour: theme.unknown, pattern: "dots" };
  if (style.by === "workload") return look((group * 7) % WORKLOAD_LOOKS, theme.dark);
  const queue = cluster.groups.queue[group];
  return queue < 0 ? { colour: theme.unknown, pattern: "plain" } : look(style.queueLook[queue], theme.dark);
}

/** Patterns are made once, for each colour of the ground and of the strokes. */
export class Brushes {
  private readonly made = new Map<string, CanvasPattern | string>();

  brush(context: Context, of: Look, ground: string): CanvasPattern | string {
    if (of.pattern === "plain") return of.colour;
    const key = `${of.colour} ${of.pattern} ${ground}`;
    const known = this.made.get(key);
    if (known) return known;
    const made = context.createPattern(tile(of.colour, of.pattern, ground), "repeat") ?? of.colour;
    this.made.set(key, made);
    return made;
  }
}

function tile(colour: string, pattern: Pattern, ground: string): OffscreenCanvas {
  const canvas = new OffscreenCanvas(6, 6);
  const context = canvas.getContext("2d");
  if (!context) return canvas;
  context.fillStyle = colour;
  context.fillRect(0, 0, 6, 6);
  context.fillStyle = ground;
  context.strokeStyle = ground;
  context.lineWidth = 1.4;
  if (pattern === "stripes") {
    context.beginPath();
    for (const shift of [-6, 0, 6]) {
      context.moveTo(shift, 6);
      context.lineTo(shift + 6, 0);
    }
    context.stroke();
  } else {
    context.fillRect(1, 1, 2, 2);
    context.fillRect(4, 4, 2, 2);
  }
  return canvas;
}

/** One node with its GPUs; `left` and `top` are where the map's corner is, in pixels. */
export function paintNode(
  context: Context,
  cluster: Cluster,
  made: Layout,
  style: Style,
  brushes: Brushes,
  node: number,
  at: { scale: number; left: number; top: number },
): void {
  const { scale } = at;
  const x = made.x[node] * scale + at.left;
  const y = made.y[node] * scale + at.top;
  const width = made.nodeWidth[node] * scale;
  const height = made.nodeHeight[node] * scale;
  context.fillStyle = style.theme.node;
  context.fillRect(x, y, width, height);
  const first = cluster.offset[node];
  const last = cluster.offset[node + 1];
  const cell = CELL * scale;
  const left = x + NODE_EDGE * scale;
  const top = y + (NODE_EDGE + NODE_TITLE) * scale;
  for (let slot = first; slot < last; slot++) {
    const column = (slot - first) % made.columns[node];
    const row = Math.floor((slot - first) / made.columns[node]);
    paintSlot(
      context,
      cluster,
      style,
      brushes,
      slot,
      left + column * PITCH * scale,
      top + row * PITCH * scale,
      cell,
    );
  }
  paintState(context, style.theme, cluster.nodeState[node], x, y, width, height, scale);
}

function paintSlot(
  context: Context,
  cluster: Cluster,
  style: Style,
  brushes: Brushes,
  slot: number,
  x: number,
  y: number,
  cell: number,
): void {
  const { theme } = style;
  const whole = cluster.slots[slot];
  if (whole < 0) paintFree(context, theme, x, y, cell);
  if (whole === FREE) return;
  let from = y + cell;
  for (const [group, part] of holders(cluster, slot)) {
    const high = (cell * part) / 100;
    from -= high;
    const of = lookOf(cluster, style, group);
    const faded = style.picked !== null && !style.picked(group);
    if (faded) context.globalAlpha = FADED;
    context.fillStyle = cell < PLAIN ? of.colour : brushes.brush(context, of, theme.node);
    context.fillRect(x, from, cell, high);
    if (faded) context.globalAlpha = 1;
    if (whole < 0 && cell >= PLAIN) {
      context.fillStyle = theme.node;
      context.fillRect(x, from, cell, Math.min(1, high / 4));
    }
  }
}

function paintFree(context: Context, theme: Theme, x: number, y: number, cell: number): void {
  context.fillStyle = theme.free;
  context.fillRect(x, y, cell, cell);
  if (cell < PLAIN) return;
  context.strokeStyle = theme.freeEdge;
  context.lineWidth = 1;
  context.strokeRect(x + 0.5, y + 0.5, cell - 1, cell - 1);
}

/** Cordoned: a bar to the left. Not ready: crossed out. Set aside: a dashed edge. */
function paintState(
  context: Context,
  theme: Theme,
  state: number,
  x: number,
  y: number,
  width: number,
  height: number,
  scale: number,
): void {
  if (state === 0) return;
  const line = Math.max(1, 1.6 * scale);
  context.lineWidth = line;
  context.strokeStyle = state === 2 ? theme.bad : theme.warn;
  if (state === 3) context.setLineDash([3 * line, 2 * line]);
  context.strokeRect(x + line / 2, y + line / 2, width - line, height - line);
  if (state === 3) context.setLineDash([]);
  context.beginPath();
  if (state === 2) {
    context.moveTo(x, y);
    context.lineTo(x + width, y + height);
    context.moveTo(x + width, y);
    context.lineTo(x, y + height);
    context.stroke();
  } else if (state === 1) {
    context.fillStyle = theme.warn;
    context.fillRect(x, y, Math.max(2, 3 * scale), height);
  }
}
