/** Names of groups, asked for when somebody is to see them. */

import { useEffect, useState } from "preact/hooks";

import { ask } from "./api/client";
import type { GroupName, GroupNames } from "./api/types";
import type { Cluster } from "./model/cluster";
import { question } from "./model/route";

const MOST_AT_ONCE = 500;
const PAUSE_MILLISECONDS = 60;

/** What is known of the keys of one numbering. */
class Names {
  readonly known = new Map<number, GroupName>();
  readonly hidden = new Set<number>();
  readonly wanted = new Set<number>();

  constructor(
    readonly shard: string,
    readonly numbering: string,
  ) {}
}

let names = new Names("", "");
const listeners = new Set<() => void>();
let timer = 0;

/** The name of a group of a cluster by its key, if it is known; else it is asked for. Key 0 has none. */
export function nameOf({ frame }: Cluster, key: number): GroupName | undefined {
  if (key === 0) return undefined;
  // A server that began anew gives the same keys to others.
  if (names.numbering !== frame.numbering) names = new Names(frame.shard, frame.numbering);
  const found = names.known.get(key);
  if (!found && !names.hidden.has(key)) want(key);
  return found;
}

function want(key: number): void {
  names.wanted.add(key);
  timer ||= window.setTimeout(() => void fetchWanted(), PAUSE_MILLISECONDS);
}

async function fetchWanted(): Promise<void> {
  const asked = names;
  const keys = [...asked.wanted].slice(0, MOST_AT_ONCE);
  let told = false;
  try {
    const said = { shard: asked.shard, keys: keys.join(",") };
    const answer = await ask<GroupNames>(question("live/groups", said));
    // Another one has answered than the one who gave these keys.
    told = answer.numbering === asked.numbering;
    if (told) take(asked, keys, answer.items);
  } catch {
    // Whoever shows them asks again when he is drawn again.
  }
  for (const key of keys) asked.wanted.delete(key);
  timer = names.wanted.size ? window.setTimeout(() => void fetchWanted(), PAUSE_MILLISECONDS) : 0;
  if (told) for (const each of [...listeners]) each();
}

function take(asked: Names, keys: number[], items: GroupName[]): void {
  for (const each of items) asked.known.set(each.key, each);
  for (const key of keys) if (!asked.known.has(key)) asked.hidden.add(key);
}

/** Shows anew when names have come. */
export function useNames(): number {
  const [turn, next] = useState(0);
  useEffect(() => {
    const listener = (): void => next((before) => before + 1);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
    };
  }, []);
  return turn;
}
