/** What happened in a time, as marks in a lane for each queue; what is too close for two marks is one. */

import type { Decision, Taking } from "../api/types";

export type Kind = "bind" | "evict" | "wait";

export interface Happening {
  at: number;
  kind: Kind;
  queue: string;
  namespace: string;
  podGroup: string;
  text: string;
}

export interface Mark {
  kind: Kind;
  /** Where in the time, from 0 to 1. */
  place: number;
  happenings: Happening[];
}

export interface Lane {
  queue: string;
  marks: Mark[];
  binds: number;
  evictions: number;
  waits: number;
}

const PLACED = new Set(["Placed", "Settled"]);
/** Who is pipelined has a place in view, and waits until those who have it are gone. */
const WAITS = new Set(["Pipelined", "Unschedulable", "NotReady"]);

export function happenings(decisions: readonly Decision[], takings: readonly Taking[]): Happening[] {
  const found: Happening[] = [];
  for (const each of decisions) {
    const kind = PLACED.has(each.outcome) ? "bind" : WAITS.has(each.outcome) ? "wait" : null;
    if (!kind) continue;
    const text = kind === "bind" ? "got its place" : each.message || each.reason || "waits";
    const { at, queue, namespace, podGroup } = each;
    found.push({ at, kind, queue, namespace, podGroup, text });
  }
  for (const { at, queue, namespace, podGroup, action, forQueue, forPodGroup, message } of takings) {
    const by = forPodGroup ? `${action} for ${forPodGroup}${forQueue ? ` of ${forQueue}` : ""}` : action;
    found.push({ at, kind: "evict", queue, namespace, podGroup, text: message || by });
  }
  return found.sort((one, other) => other.at - one.at);
}

/** Lanes by name; `steps`: so many marks of a kind have room beside each other. */
export function lanes(all: readonly Happening[], since: number, until: number, steps: number): Lane[] {
  const found = new Map<string, Map<string, Mark>>();
  for (const each of all) {
    if (each.at < since || each.at > until) continue;
    const step = Math.min(steps - 1, Math.floor(((each.at - since) / (until - since)) * steps));
    const marks = found.get(each.queue) ?? new Map<string, Mark>();
    found.set(each.queue, marks);
    const mark = marks.get(`${each.kind} ${step}`);
    if (mark) mark.happenings.push(each);
    else
      marks.set(`${each.kind} ${step}`, { kind: each.kind, place: (step + 0.5) / steps, happenings: [each] });
  }
  return [...found.keys()].sort().map((queue) => {
    const marks = [...(found.get(queue)?.values() ?? [])];
    const of = (kind: Kind): number =>
      marks.filter((mark) => mark.kind === kind).reduce((sum, mark) => sum + mark.happenings.length, 0);
    return { queue, marks, binds: of("bind"), evictions: of("evict"), waits: of("wait") };
  });
}
