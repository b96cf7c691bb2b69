/** What part of the map is seen: pixels of the view = units of the map * scale + offset. */

import { type Box, LARGEST_FIT } from "./layout";

export interface Camera {
  scale: number;
  x: number;
  y: number;
}

export interface Size {
  width: number;
  height: number;
}

const EDGE = 16;
export const LARGEST = 12;

/** All of a part of the map, in the middle. */
export function fitted(box: Box, view: Size, largest = LARGEST_FIT): Camera {
  const scale = Math.min(
    largest,
    (view.width - 2 * EDGE) / Math.max(1, box.width),
    (view.height - 2 * EDGE) / Math.max(1, box.height),
  );
  const safe = Math.max(scale, 0.01);
  return {
    scale: safe,
    x: (view.width - box.width * safe) / 2 - box.x * safe,
    y: (view.height - box.height * safe) / 2 - box.y * safe,
  };
}

/** Nearer or farther by a factor; the point of the view under the pointer stays where it is. */
export function zoomed(camera: Camera, factor: number, at: { x: number; y: number }, least: number): Camera {
  const scale = Math.min(LARGEST, Math.max(least, camera.scale * factor));
  const real = scale / camera.scale;
  return { scale, x: at.x - (at.x - camera.x) * real, y: at.y - (at.y - camera.y) * real };
}

/** Never so far away that nothing of the map is seen. */
export function bounded(camera: Camera, map: Size, view: Size): Camera {
  const bound = (offset: number, length: number, room: number): number =>
    Math.min(room - Math.min(room, length) * 0.25, Math.max(Math.min(room, length) * 0.25 - length, offset));
  return {
    scale: camera.scale,
    x: bound(camera.x, map.width * camera.scale, view.width),
    y: bound(camera.y, map.height * camera.scale, view.height),
  };
}

export function seen(camera: Camera, view: Size): Box {
  return {
    x: -camera.x / camera.scale,
    y: -camera.y / camera.scale,
    width: view.width / camera.scale,
    height: view.height / camera.scale,
  };
}

/** Moves as little as is needed for a box to be seen whole. */
export function revealing(camera: Camera, box: Box, view: Size): Camera {
  const shift = (low: number, high: number, room: number): number =>
    low < EDGE ? EDGE - low : high > room - EDGE ? room - EDGE - high : 0;
  const left = box.x * camera.scale + camera.x;
  const top = box.y * camera.scale + camera.y;
  return {
    scale: camera.scale,
    x: camera.x + shift(left, left + box.width * camera.scale, view.width),
    y: camera.y + shift(top, top + box.height * camera.scale, view.height),
  };
}
