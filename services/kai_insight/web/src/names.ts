/** Names of groups, asked for when somebody is to see them. */

import { useEffect, useState } from "preact/hooks";

import { ask } from "./api/client";
import type { GroupName } from "./api/types";
import { question } from "./model/route";

const MOST_AT_ONCE = 500;
const PAUSE_MILLISECONDS = 60;

const known = new Map<string, GroupName>();
const hidden = new Set<string>();
const wanted = new Map<string, Set<number>>();
const listeners = new Set<() => void>();
let timer = 0;

/** The name of a group by its key, if it is known; else it is asked for. Key 0 has none. */
export function nameOf(shard: string, key: number): GroupName | undefined {
  if (key === 0) return undefined;
  const id = `${shard} ${key}`;
  const found = known.get(id);
  if (!found && !hidden.has(id)) want(shard, key);
  return found;
}

function want(shard: string, key: number): void {
  const keys = wanted.get(shard) ?? new Set();
  wanted.set(shard, keys.add(key));
  timer ||= window.setTimeout(() => void fetchWanted(), PAUSE_MILLISECONDS);
}

async function fetchWanted(): Promise<void> {
  for (const [shard, keys] of [...wanted]) {
    const now = [...keys].slice(0, MOST_AT_ONCE);
    try {
      const answer = await ask<{ items: GroupName[] }>(
        question("live/groups", { shard, keys: now.join(",") }),
      );
      for (const each of answer.items) known.set(`${shard} ${each.key}`, each);
      for (const key of now) if (!known.has(`${shard} ${key}`)) hidden.add(`${shard} ${key}`);
    } catch {
      // Whoever shows them asks again when he is drawn again.
    }
    for (const key of now) keys.delete(key);
    if (keys.size === 0) wanted.delete(shard);
  }
  timer = wanted.size ? window.setTimeout(() => void fetchWanted(), PAUSE_MILLISECONDS) : 0;
  for (const each of [...listeners]) each();
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
