/**
 * The map on its canvas.
 *
 * While somebody drags or zooms, frames are copied from bitmaps of the whole map, one for each of few scales. When
 * he rests, what is seen is drawn anew, sharp. A change of the cluster draws only the nodes that it is about.
 */

import type { Cluster } from "../model/cluster";
import { type Camera, type Size, bounded, fitted, revealing, seen, zoomed } from "./camera";
import { type Box, type Layout, NODE_TITLE, Places } from "./layout";
import { Brushes, type Style, paintNode } from "./paint";

/** Scales of the bitmaps, the farthest first, and how many pixels one may have. */
const BITMAP_SCALES = [0.2, 0.4, 0.8];
const MOST_PIXELS = 6_000_000;
/** With fewer nodes in sight they are drawn themselves, in every frame. */
const FEW_NODES = 260;
const REST_MILLISECONDS = 140;
/** Names are written where they are at least so high, in pixels. */
const READABLE = 9;

interface Bitmap {
  scale: number;
  canvas: OffscreenCanvas;
  context: OffscreenCanvasRenderingContext2D;
  /** Nodes that look otherwise now; null: all. */
  dirty: Set<number> | null;
}

export interface Names {
  domain: (domain: number) => string;
  node: (node: number) => string;
}

export class Picture {
  camera: Camera = { scale: 1, x: 0, y: 0 };
  view: Size = { width: 1, height: 1 };
  readonly places: Places;
  /** Of each frame that was drawn while somebody moved the map: milliseconds. */
  readonly frames: number[] = [];
  private readonly context: CanvasRenderingContext2D;
  private readonly brushes = new Brushes();
  private readonly bitmaps: Bitmap[] = [];
  private ratio = 1;
  private moving = false;
  private frame = 0;
  private resting = 0;
  private warming = 0;
  private least = 0.01;
  private touched = false;
  private cursor = -1;
  private marked: readonly number[] = [];

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly cluster: Cluster,
    readonly layout: Layout,
    private style: Style,
    private readonly names: Names,
  ) {
    const context = canvas.getContext("2d", { alpha: false });
    if (!context) throw new Error("this browser draws no pictures");
    this.context = context;
    this.places = new Places(layout);
  }

  /** The view has this size now; all of the map is shown if nobody has moved it. */
  resize(view: Size, ratio: number): void {
    this.view = view;
    this.ratio = ratio;
    this.canvas.width = Math.max(1, Math.round(view.width * ratio));
    this.canvas.height = Math.max(1, Math.round(view.height * ratio));
    this.least =
      fitted({ x: 0, y: 0, width: this.layout.width, height: this.layout.height }, view).scale * 0.6;
    if (this.touched) this.camera = bounded(this.camera, this.layout, view);
    else this.camera = this.whole();
    this.draw();
    performance.mark("map drawn");
    this.warm();
  }

  restyle(style: Style): void {
    this.style = style;
    for (const bitmap of this.bitmaps) bitmap.dirty = null;
    this.draw();
    this.warm();
  }

  /** The node that the keyboard is at, and those that are picked; -1 and none, if there are none. */
  mark(cursor: number, marked: readonly number[]): void {
    this.cursor = cursor;
    this.marked = marked;
    this.draw();
  }

  /** These nodes look otherwise now. */
  changed(nodes: ReadonlySet<number>): void {
    for (const bitmap of this.bitmaps) nodes.forEach((node) => bitmap.dirty?.add(node));
    if (this.moving) return;
    const window = seen(this.camera, this.view);
    this.transform();
    for (const node of nodes) if (touches(this.layout, node, window)) this.node(node);
    this.overlay(window);
  }

  whole(): Camera {
    return fitted({ x: 0, y: 0, width: this.layout.width, height: this.layout.height }, this.view);
  }

  showAll(): void {
    this.touched = false;
    this.move(this.whole());
  }

  drag(right: number, down: number): void {
    this.touched = true;
    this.move({ ...this.camera, x: this.camera.x + right, y: this.camera.y + down });
  }

  zoom(factor: number, at = { x: this.view.width / 2, y: this.view.height / 2 }): void {
    this.touched = true;
    this.move(zoomed(this.camera, factor, at, this.least));
  }

  /** Brings a node into sight, near enough to read its name where `near` says so. */
  reveal(node: number, near: boolean): void {
    // Where all of the map is shown, the node is.
    if (!this.touched && !near) return;
    this.touched = true;
    const box = this.box(node);
    if (near && this.camera.scale < 2) {
      const close = fitted(box, this.view, 2.4);
      this.move(close);
    } else this.move(revealing(this.camera, box, this.view));
  }

  /** The part of the map that a domain is. */
  revealBox(box: Box): void {
    this.touched = true;
    this.move(fitted(box, this.view, 4));
  }

  box(node: number): Box {
    const made = this.layout;
    return { x: made.x[node], y: made.y[node], width: made.nodeWidth[node], height: made.nodeHeight[node] };
  }

  /** The point of the map under one of the view. */
  point(x: number, y: number): { x: number; y: number } {
    return { x: (x - this.camera.x) / this.camera.scale, y: (y - this.camera.y) / this.camera.scale };
  }

  close(): void {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.resting);
    clearTimeout(this.warming);
  }

  private move(camera: Camera): void {
    this.camera = bounded(camera, this.layout, this.view);
    this.moving = true;
    clearTimeout(this.resting);
    this.resting = window.setTimeout(() => {
      this.moving = false;
      this.draw();
    }, REST_MILLISECONDS);
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const began = performance.now();
      this.drawMoving();
      this.frames.push(performance.now() - began);
      if (this.frames.length > 600) this.frames.shift();
    });
  }

  /** Draws all that is seen, sharp. */
  draw(): void {
    const window = seen(this.camera, this.view);
    this.clear(window);
    for (const node of this.places.within(window)) this.node(node);
    this.overlay(window);
  }

  private drawMoving(): void {
    const window = seen(this.camera, this.view);
    const nodes = this.places.within(window);
    const bitmap = nodes.length > FEW_NODES ? this.bitmapFor(this.camera.scale * this.ratio) : undefined;
    this.clear(window);
    if (bitmap) this.copy(bitmap, window);
    else for (const node of nodes) this.node(node);
    this.overlay(window);
  }

  private clear(window: Box): void {
    this.transform();
    this.context.fillStyle = this.style.theme.ground;
    this.context.fillRect(0, 0, this.view.width, this.view.height);
    for (const box of this.layout.domains) if (overlap(box, window)) this.domain(box);
  }

  private transform(): void {
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
  }

  private domain(box: Box): void {
    const { scale, x, y } = this.camera;
    this.context.strokeStyle = this.style.theme.edge;
    this.context.lineWidth = 1;
    this.context.strokeRect(
      Math.round(box.x * scale + x) + 0.5,
      Math.round(box.y * scale + y) + 0.5,
      Math.round(box.width * scale),
      Math.round(box.height * scale),
    );
  }

  private node(node: number): void {
    const { scale, x, y } = this.camera;
    paintNode(this.context, this.cluster, this.layout, this.style, this.brushes, node, {
      scale,
      left: x,
      top: y,
    });
    if (NODE_TITLE * scale >= READABLE) this.title(node);
  }

  private title(node: number): void {
    const { scale, x, y } = this.camera;
    const box = this.box(node);
    this.write(
      this.names.node(node),
      box.x * scale + x + 2 * scale,
      box.y * scale + y + (NODE_TITLE / 2 + 1) * scale,
      (box.width - 4) * scale,
      Math.min(12, NODE_TITLE * scale * 0.95),
      this.style.theme.faint,
      "500",
    );
  }

  /** What stands above nodes: names of domains, and who is picked. */
  private overlay(window: Box): void {
    const { scale, x, y } = this.camera;
    for (const box of this.layout.domains) {
      if (!overlap(box, window)) continue;
      const size = Math.min(13, box.title * scale * 0.8);
      if (size < READABLE * 0.85) continue;
      const left = Math.max(box.x * scale + x, 0) + 6;
      const room = (box.x + box.width) * scale + x - left - 4;
      const middle = (box.y + box.title / 2 + 1) * scale + y;
      this.write(this.names.domain(box.domain), left, middle, room, size, this.style.theme.ink, "600");
    }
    for (const node of this.marked) this.outline(node, 2, this.style.theme.accent);
    if (this.cursor >= 0) this.outline(this.cursor, 3, this.style.theme.accent);
  }

  private outline(node: number, width: number, colour: string): void {
    const { scale, x, y } = this.camera;
    const box = this.box(node);
    this.context.strokeStyle = colour;
    this.context.lineWidth = width;
    this.context.strokeRect(
      box.x * scale + x - 1,
      box.y * scale + y - 1,
      box.width * scale + 2,
      box.height * scale + 2,
    );
  }

  private write(
    text: string,
    x: number,
    y: number,
    room: number,
    size: number,
    ink: string,
    weight: string,
  ): void {
    if (room < 14) return;
    const { context } = this;
    context.font = `${weight} ${size.toFixed(1)}px system-ui, sans-serif`;
    context.fillStyle = ink;
    context.textBaseline = "middle";
    context.fillText(shortened(context, text, room), x, y);
  }

  // --- bitmaps of the whole map --------------------------------------------------------------------
  private copy(bitmap: Bitmap, window: Box): void {
    const { context, camera } = this;
    const left = Math.max(0, window.x);
    const top = Math.max(0, window.y);
    const width = Math.min(this.layout.width, window.x + window.width) - left;
    const height = Math.min(this.layout.height, window.y + window.height) - top;
    if (width <= 0 || height <= 0) return;
    const { scale } = bitmap;
    context.drawImage(
      bitmap.canvas,
      left * scale,
      top * scale,
      width * scale,
      height * scale,
      left * camera.scale + camera.x,
      top * camera.scale + camera.y,
      width * camera.scale,
      height * camera.scale,
    );
  }

  /** The bitmap that is nearest in scale and not coarser, with all changes in it. */
  private bitmapFor(scale: number): Bitmap | undefined {
    const able = BITMAP_SCALES.filter(
      (each) => this.layout.width * this.layout.height * each * each <= MOST_PIXELS,
    );
    const wanted = able.find((each) => each >= scale * 0.8) ?? able.at(-1);
    if (wanted === undefined || scale > wanted * 2.5) return undefined;
    const bitmap = this.bitmaps.find((each) => each.scale === wanted) ?? this.newBitmap(wanted);
    if (bitmap) this.refresh(bitmap);
    return bitmap;
  }

  private newBitmap(scale: number): Bitmap | undefined {
    const width = Math.ceil(this.layout.width * scale);
    const height = Math.ceil(this.layout.height * scale);
    const canvas = new OffscreenCanvas(Math.max(1, width), Math.max(1, height));
    const context = canvas.getContext("2d");
    if (!context) return undefined;
    const bitmap: Bitmap = { scale, canvas, context, dirty: null };
    this.bitmaps.push(bitmap);
    return bitmap;
  }

  private refresh(bitmap: Bitmap): void {
    const at = { scale: bitmap.scale, left: 0, top: 0 };
    const paint = (node: number): void =>
      paintNode(bitmap.context, this.cluster, this.layout, this.style, this.brushes, node, at);
    if (bitmap.dirty) bitmap.dirty.forEach(paint);
    else for (let node = 0; node < this.layout.x.length; node++) paint(node);
    bitmap.dirty = new Set();
  }

  /** Makes the bitmap that the next drag needs before somebody drags. */
  private warm(): void {
    clearTimeout(this.warming);
    if (this.layout.x.length <= FEW_NODES) return;
    this.warming = window.setTimeout(() => this.bitmapFor(this.camera.scale * this.ratio), 250);
  }
}

function touches(made: Layout, node: number, window: Box): boolean {
  return overlap(
    { x: made.x[node], y: made.y[node], width: made.nodeWidth[node], height: made.nodeHeight[node] },
    window,
  );
}

function overlap(one: Box, other: Box): boolean {
  return (
    one.x <= other.x + other.width &&
    one.x + one.width >= other.x &&
    one.y <= other.y + other.height &&
    one.y + one.height >= other.y
  );
}

/** As much of a text as there is room for. */
function shortened(context: CanvasRenderingContext2D, text: string, room: number): string {
  const width = context.measureText(text).width;
  if (width <= room) return text;
  const letters = Math.floor((text.length * room) / width) - 1;
  return letters > 1 ? `${text.slice(0, letters)}…` : "";
}
