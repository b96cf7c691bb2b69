/** The canvas of the map, with pointer and keyboard. */

import type { CanvasHTMLAttributes, JSX, TargetedKeyboardEvent } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { onDirty } from "../follow";
import { layout, neighbour, slotAt } from "../map/layout";
import type { ColourBy } from "../map/paint";
import { pickOf } from "../map/picked";
import { Picture } from "../map/picture";
import { type Cluster, domainAddress, domainOf, holders } from "../model/cluster";
import { count } from "../model/format";
import { NODE_STATES } from "../model/palette";
import { nameOf, useNames } from "../names";
import { say } from "../nav";
import { current, useStore } from "../store";
import { Icon } from "./icons";
import { mapStyle } from "./map-style";
import { useSize } from "./size";

interface Spot {
  node: number;
  slot: number;
  x: number;
  y: number;
}

interface Props {
  cluster: Cluster;
  by: ColourBy;
  node: number;
}

declare global {
  interface Window {
    /** For measurements: how long frames took to draw while the map was moved, in milliseconds. */
    kaiFrames?: () => readonly number[];
  }
}

export function MapCanvas({ cluster, by, node }: Props): JSX.Element {
  const [holder, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const picture = useRef<Picture | null>(null);
  const dark = useStore((state) => state.dark);
  const pick = useStore((state) => state.route.said.pick ?? "");
  const domain = useStore((state) => state.route.said.domain ?? "");
  const [spot, setSpot] = useState<Spot | null>(null);
  const [cursor, setCursor] = useState(-1);
  const ready = size.width > 0 && size.height > 0;
  const { width, height } = size;
  // What is opened beside the map makes it narrower, and moves nothing on it; another window does.
  const windowShape = `${Math.round(innerWidth / 300)} ${Math.round(innerHeight / 300)}`;
  const room = useRef(size);
  room.current = size;
  const made = useMemo(
    () => (ready && windowShape ? layout(cluster.frame, room.current) : null),
    [cluster, ready, windowShape],
  );
  const style = useMemo(() => mapStyle(cluster, by, dark, pick), [cluster, by, dark, pick]);
  const latest = useRef(style);
  latest.current = style;

  useEffect(() => {
    if (!canvas.current || !made) return;
    const { domains, nodes } = cluster.frame;
    const names = {
      domain: (index: number) => domains.name[index],
      node: (index: number) => nodes.name[index],
    };
    const shown = new Picture(canvas.current, cluster, made, latest.current, names);
    picture.current = shown;
    window.kaiFrames = () => shown.frames;
    const stop = onDirty((dirty) => shown.changed(dirty));
    return () => {
      stop();
      shown.close();
      picture.current = null;
    };
  }, [cluster, made]);
  useEffect(
    () => picture.current?.resize({ width, height }, Math.min(2, devicePixelRatio)),
    [width, height, made],
  );
  useEffect(() => picture.current?.restyle(style), [style]);
  useEffect(() => picture.current?.mark(cursor, node >= 0 ? [node] : []), [cursor, node, made]);
  useEffect(() => {
    if (node >= 0) picture.current?.reveal(node, false);
  }, [node, made]);
  useEffect(() => {
    const box = made?.domains.find((each) => domainAddress(cluster, each.domain) === domain);
    if (box) picture.current?.revealBox(box);
  }, [domain, made, cluster]);

  const pointers = useMemo(() => pointerHandlers(() => picture.current, cluster, setSpot), [cluster]);
  const zoom = (factor: number): void => picture.current?.zoom(factor);
  return (
    <div class="map" ref={holder}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label="Map of the cluster. Arrow keys go from node to node, Enter opens one, plus and minus zoom, 0 shows all."
        aria-describedby="map-cursor"
        onKeyDown={(event) => {
          const shown = picture.current;
          if (shown && made) onKey(event, shown, made, cluster, cursor, setCursor);
        }}
        {...pointers}
      />
      <div class="map-buttons">
        <button
          type="button"
          class="icon-button"
          aria-label="Nearer"
          title="Nearer (+)"
          onClick={() => zoom(1.5)}
        >
          <Icon name="plus" />
        </button>
        <button
          type="button"
          class="icon-button"
          aria-label="Farther"
          title="Farther (−)"
          onClick={() => zoom(1 / 1.5)}
        >
          <Icon name="minus" />
        </button>
        <button
          type="button"
          class="icon-button"
          aria-label="Show all"
          title="Show all (0)"
          onClick={() => picture.current?.showAll()}
        >
          <Icon name="fit" />
        </button>
      </div>
      {spot && <Tip cluster={cluster} spot={spot} view={size} />}
      <p class="sr" id="map-cursor" role="status">
        {cursor >= 0 ? nodeWords(cluster, cursor) : ""}
      </p>
    </div>
  );
}

function nodeWords(cluster: Cluster, node: number): string {
  const gpus = cluster.offset[node + 1] - cluster.offset[node];
  let free = 0;
  for (let at = cluster.offset[node]; at < cluster.offset[node + 1]; at++)
    if (cluster.slots[at] === -1) free++;
  const where = domainOf(cluster, node).join(", ");
  const state = cluster.nodeState[node];
  return `${cluster.frame.nodes.name[node]}${where ? ` in ${where}` : ""}: ${count(free)} of ${count(gpus)} GPUs free${state ? `, ${NODE_STATES[state]}` : ""}`;
}

function onKey(
  event: TargetedKeyboardEvent<HTMLCanvasElement>,
  picture: Picture,
  made: ReturnType<typeof layout>,
  cluster: Cluster,
  cursor: number,
  setCursor: (node: number) => void,
): void {
  const steps: Record<string, [number, number]> = {
    ArrowRight: [1, 0],
    ArrowLeft: [-1, 0],
    ArrowDown: [0, 1],
    ArrowUp: [0, -1],
  };
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const step = steps[event.key] as [number, number] | undefined;
  if (step) {
    const next = cursor < 0 ? 0 : neighbour(made, cursor, step[0], step[1]);
    setCursor(next);
    picture.reveal(next, false);
  } else if (event.key === "Enter" && cursor >= 0) say({ node: cluster.frame.nodes.name[cursor] }, true);
  else if (event.key === "+" || event.key === "=") picture.zoom(1.4);
  else if (event.key === "-") picture.zoom(1 / 1.4);
  else if (event.key === "0") picture.showAll();
  else if (event.key === "Escape") say({ node: "", pick: "" });
  else return;
  event.preventDefault();
}

/** Drags, pinches, turns the wheel, presses. */
function pointerHandlers(
  picture: () => Picture | null,
  cluster: Cluster,
  setSpot: (spot: Spot | null) => void,
): CanvasHTMLAttributes {
  const pointers = new Map<number, { x: number; y: number }>();
  let moved = 0;
  const at = (event: PointerEvent | WheelEvent): { x: number; y: number } => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const find = (point: { x: number; y: number }): Spot | null => {
    const shown = picture();
    if (!shown) return null;
    const { x, y } = shown.point(point.x, point.y);
    const node = shown.places.at(x, y);
    if (node < 0) return null;
    return { node, slot: slotAt(shown.layout, node, cluster.frame.nodes.gpus[node], x, y), ...point };
  };
  const drag = (event: PointerEvent): void => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const now = at(event);
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const far = (one: { x: number; y: number }): number =>
        Math.hypot(one.x - other.x, one.y - other.y) || 1;
      picture()?.zoom(far(now) / far(before), { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 });
    } else picture()?.drag(now.x - before.x, now.y - before.y);
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    pointers.set(event.pointerId, now);
  };
  return {
    onPointerDown: (event) => {
      event.currentTarget.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, at(event));
      if (pointers.size === 1) moved = 0;
      setSpot(null);
    },
    onPointerMove: (event) => {
      if (pointers.size) drag(event);
      else setSpot(find(at(event)));
    },
    onPointerUp: (event) => {
      pointers.delete(event.pointerId);
      if (moved > 4) return;
      const spot = find(at(event));
      if (spot) press(cluster, spot);
    },
    onPointerCancel: (event) => {
      pointers.delete(event.pointerId);
    },
    onPointerLeave: () => setSpot(null),
    onWheel: (event) => {
      event.preventDefault();
      setSpot(null);
      picture()?.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0018)), at(event));
    },
  };
}

/** A node is opened; where workloads are coloured, the one under the pointer is shown alone. */
function press(cluster: Cluster, spot: Spot): void {
  const changes: Record<string, string> = { node: cluster.frame.nodes.name[spot.node] };
  if (current().route.said.colour === "workload" && spot.slot >= 0) {
    const first = holders(cluster, cluster.offset[spot.node] + spot.slot).at(0);
    const shown = first && first[0] >= 0 && cluster.groups.key[first[0]] !== 0;
    changes.pick = shown ? pickOf(cluster, first[0]) : "";
  }
  say(changes, true);
}

function Tip({
  cluster,
  spot,
  view,
}: {
  cluster: Cluster;
  spot: Spot;
  view: { width: number; height: number };
}): JSX.Element {
  useNames();
  const right = spot.x > view.width - 280;
  const low = spot.y > view.height - 140;
  const position = {
    left: right ? "auto" : `${spot.x + 14}px`,
    right: right ? `${view.width - spot.x + 14}px` : "auto",
    top: low ? "auto" : `${spot.y + 14}px`,
    bottom: low ? `${view.height - spot.y + 14}px` : "auto",
  };
  const held = spot.slot >= 0 ? holders(cluster, cluster.offset[spot.node] + spot.slot) : [];
  const state = cluster.nodeState[spot.node];
  return (
    <div class="tip" style={position} aria-hidden="true">
      <strong>{cluster.frame.nodes.name[spot.node]}</strong>
      <span class="faint">{domainOf(cluster, spot.node).join(" › ")}</span>
      {state > 0 && <span class="tip-state">{NODE_STATES[state]}</span>}
      {spot.slot >= 0 && (
        <span>
          GPU {spot.slot}
          {held.length === 0 ? ": free" : ""}
        </span>
      )}
      {held.map(([group, part]) => {
        const key = group < 0 ? 0 : cluster.groups.key[group];
        const name = nameOf(cluster, key);
        const queue = group < 0 ? -1 : cluster.groups.queue[group];
        return (
          <span key={group} class="tip-holder">
            {part < 100 ? `${part} % ` : ""}
            {key === 0
              ? "somebody whom you may not see"
              : name
                ? `${name.namespace}/${name.workload || name.name}`
                : "…"}
            {queue >= 0 && <span class="faint"> {cluster.queues.name[queue]}</span>}
          </span>
        );
      })}
    </div>
  );
}
