/** Pictures of views and buttons; each stands beside a word or in a button that has a name. */

import type { JSX } from "preact";

const PATHS = {
  waiting: "M12 7v5l3 2M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
  cluster: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  queues: "M5 5h14M5 5v12M5 11h5M5 17h5M13 11h6M13 17h6",
  time: "M3 6h6M12 6h9M3 12h11M17 12h4M3 18h3M9 18h12",
  workload: "M4 8l8-4 8 4v8l-8 4-8-4zM4 8l8 4 8-4M12 12v8",
  "what-if": "M6 4v6a4 4 0 0 0 4 4h8M14 10l4 4-4 4M6 14v6",
  health: "M3 12h4l2-6 4 12 2-6h6",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l4 4",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h10v11H9zM5 15V4h10",
  done: "M5 13l4 4L19 7",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  fit: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5",
  open: "M9 6l6 6-6 6",
  down: "M6 9l6 6 6-6",
  warn: "M12 4l9 16H3zM12 10v4M12 17v.5",
  key: "M14 10a4 4 0 1 0-3.5 4l1.500 0 0 2 2 0 0 2 3 0 0-3-3.800-3.800z",
  theme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 24 24" width="18" height="18" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
