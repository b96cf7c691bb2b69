/** Curves over time, with the numbers under the pointer told below. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

import { useStore } from "../store";
import { useSize } from "./size";

export interface Curve {
  label: string;
  /** Name of a colour of the style sheet. */
  colour: string;
  dashes?: number[];
  filled?: boolean;
  values: (number | null)[];
}

interface Props {
  label: string;
  times: number[];
  curves: Curve[];
  height: number;
  since: number;
  until: number;
  format: (value: number) => string;
  /** Pixels to the left and right of the curves, where they have to stand above something. */
  edges?: readonly [left: number, right: number];
}

export function Chart(props: Props): JSX.Element {
  const [element, size] = useSize<HTMLDivElement>();
  const plot = useRef<uPlot | null>(null);
  const dark = useStore((state) => state.dark);
  const { times, curves, height, since, until, format, edges } = props;
  const left = edges?.[0];
  const right = edges?.[1];
  const width = size.width;

  useEffect(() => {
    const target = element.current;
    if (!target || width < 60) return;
    const made = new uPlot(
      options(curves, { width, height, since, until, left, right }, format),
      [times, ...curves.map((each) => each.values)],
      target,
    );
    const last = times.length - 1;
    if (last >= 0) made.setLegend({ idx: last });
    plot.current = made;
    return () => made.destroy();
    // `dark`: colours are read from the style sheet when it is made.
  }, [element, width, height, times, curves, since, until, format, left, right, dark]);

  return (
    <div
      class="chart"
      ref={element}
      role="img"
      aria-label={props.label}
      style={{ minHeight: `${height}px` }}
    />
  );
}

function options(
  curves: Curve[],
  shape: {
    width: number;
    height: number;
    since: number;
    until: number;
    left: number | undefined;
    right: number | undefined;
  },
  format: (value: number) => string,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--faint"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  const font = "11px system-ui, sans-serif";
  const { width, height, since, until, left, right } = shape;
  const legend = left === undefined ? 30 : 0;
  const stepped = uPlot.paths.stepped?.({ align: 1 });
  return {
    width,
    height: height - legend,
    scales: {
      x: { time: true, range: [since, until] },
      y: { range: (_, low, high) => [Math.min(0, low), Math.max(1, high * 1.08)] },
    },
    legend: { show: legend > 0 },
    // Beside the curves the legend tells how it is now.
    hooks: {
      setLegend: [
        (plot) => {
          if (plot.legend.idx === null) plot.setLegend({ idx: plot.data[0].length - 1 }, false);
        },
      ],
    },
    padding: [10, right ?? 12, 0, 0],
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    axes: [
      {
        ...axis,
        font,
        space: 90,
        size: 24,
        values: (_, splits, __, ___, step) => splits.map((at) => tick(at, step)),
      },
      { ...axis, font, size: left ?? 48, space: 26, values: (_, splits) => splits.map(format) },
    ],
    series: [
      {
        value: (_, value: number | null) =>
          value === null ? "" : new Date(value * 1000).toLocaleTimeString("en-GB"),
        label: "at",
      },
      ...curves.map((each) => ({
        label: each.label,
        stroke: colour(each.colour),
        width: each.dashes ? 1.25 : 1.75,
        ...(each.dashes ? { dash: each.dashes } : {}),
        ...(each.filled ? { fill: `${colour(each.colour)}22` } : {}),
        ...(stepped ? { paths: stepped } : {}),
        points: { show: false },
        value: (_: uPlot, value: number | null) => (value === null ? "–" : format(value)),
      })),
    ],
  };
}

/** A time below the axis: the day where ticks are days apart. */
function tick(at: number, step: number): string {
  const then = new Date(at * 1000);
  const day = then.toLocaleDateString("en", { day: "numeric", month: "short" });
  const time = then.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return step >= 86_400 ? day : time;
}
