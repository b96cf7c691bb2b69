/** One place for all that views share; who shows a part of it is told when that part changes. */

import { useEffect, useRef, useState } from "preact/hooks";

import type { Problem } from "./api/client";
import type { Live, Shard } from "./api/types";
import type { Cluster } from "./model/cluster";
import { type Route, parse } from "./model/route";

export type Freshness = "waiting" | "live" | "stale";

export interface State {
  route: Route;
  live: Live | null;
  /** Why nothing is known yet, or why a token is wanted. */
  problem: Problem | null;
  cluster: Cluster | null;
  /** Why there is no map. */
  clusterProblem: Problem | null;
  /** Rises with each change of the cluster, which is changed in place. */
  revision: number;
  freshness: Freshness;
  /** When the server last said anything, in Unix seconds. */
  heard: number;
  theme: "auto" | "light" | "dark";
  dark: boolean;
  now: number;
}

type Listener = () => void;

let state: State = {
  route: parse(location.hash),
  live: null,
  problem: null,
  cluster: null,
  clusterProblem: null,
  revision: 0,
  freshness: "waiting",
  heard: 0,
  theme: "auto",
  dark: false,
  now: Date.now() / 1000,
};
const listeners = new Set<Listener>();

export function current(): State {
  return state;
}

export function set(changes: Partial<State>): void {
  state = { ...state, ...changes };
  for (const each of [...listeners]) each();
}

export function subscribe(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** A part of the state, shown anew when it is another one. */
export function useStore<T>(part: (of: State) => T): T {
  const chosen = useRef(part);
  chosen.current = part;
  const [value, show] = useState(() => part(state));
  const fresh = part(state);
  useEffect(() => {
    const look = (): void => show(() => chosen.current(state));
    look();
    return subscribe(look);
  }, []);
  return Object.is(fresh, value) ? value : fresh;
}

/** The name of the shard that is looked at: what the address says, else the first. Nothing is asked without it. */
export function shardOf(of: State): string {
  return of.route.said.shard ?? of.live?.shards.at(0)?.name ?? "";
}

export function useShard(): string {
  return useStore(shardOf);
}

/** What is known of the shard that is looked at; nothing where there is none of that name. */
export function shardTold(of: State): Shard | undefined {
  return of.live?.shards.find((each) => each.name === shardOf(of));
}

/** The time in Unix seconds, shown anew every five of them. */
export function useClock(): number {
  return useStore((state) => Math.floor(state.now / 5) * 5);
}
