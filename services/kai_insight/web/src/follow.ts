/** Follows the server: what there is, the state of one shard, and its changes as they come. */

import { Problem, ask, listen } from "./api/client";
import type { Change, Frame, Live } from "./api/types";
import { type Cluster, changed, opened } from "./model/cluster";
import { Reader } from "./model/events";
import { question } from "./model/route";
import { current, set, shardOf, shardTold } from "./store";

/** After so many seconds without a word (one comes every 15) what is shown is called stale. */
const SILENCE_SECONDS = 40;
/** So often it is asked which shards there are. */
const LIVE_SECONDS = 20;
const AGAIN_SECONDS = [1, 2, 4, 8, 15];

export type DirtyListener = (nodes: ReadonlySet<number>) => void;
const dirtyListeners = new Set<DirtyListener>();
let following: AbortController | null = null;
/** The server has said that changes are not enough any more. */
let outdated = false;

/** Is told which nodes look otherwise, after each change. */
export function onDirty(listener: DirtyListener): () => void {
  dirtyListeners.add(listener);
  return () => dirtyListeners.delete(listener);
}

/** Begins anew, as after another shard was chosen or a token given. */
export function follow(): void {
  following?.abort();
  following = new AbortController();
  void run(following.signal);
}

/**
 * Follows only while somebody looks: a browser has few connections to a server for all of its tabs, and a page
 * that nobody sees is to cost nothing.
 */
export function followWhileSeen(): void {
  const look = (): void => {
    if (document.hidden) following?.abort();
    else follow();
  };
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", () => following?.abort());
  addEventListener("pageshow", (event) => {
    if (event.persisted) look();
  });
  setInterval(() => {
    if (!document.hidden && current().live) void lookAgain();
  }, LIVE_SECONDS * 1000);
  look();
}

/** Which shards there are, and whether anything is wrong with them. */
async function lookAgain(): Promise<void> {
  try {
    set({ live: await ask<Live>("live") });
    if (isOfAnother()) follow();
  } catch (error) {
    if (error instanceof Problem && error.kind === "token") set({ problem: error });
  }
}

async function run(signal: AbortSignal): Promise<void> {
  let failures = 0;
  while (!over(signal)) {
    try {
      await round(signal, () => (failures = 0));
    } catch (error) {
      if (over(signal)) return;
      const problem = error instanceof Problem ? error : new Problem("away", String(error));
      failed(problem);
      if (problem.kind === "token") return;
      const usual = AGAIN_SECONDS[Math.min(failures, AGAIN_SECONDS.length - 1)];
      failures++;
      await pause(Math.max(usual, problem.again), signal);
    }
  }
}

/** Whether somebody has begun anew meanwhile. */
function over(signal: AbortSignal): boolean {
  return signal.aborted;
}

function failed(problem: Problem): void {
  const { live, cluster, freshness } = current();
  if (problem.kind === "token" || !live) set({ problem });
  else if (!cluster) set({ clusterProblem: problem });
  if (freshness === "live") set({ freshness: "stale" });
}

/** The state as it is, then its changes until the server ends them or says that all has to be asked again. */
async function round(signal: AbortSignal, heard: () => void): Promise<void> {
  leaveAnother();
  const live = await ask<Live>("live", signal);
  set({ live, problem: null, heard: Date.now() / 1000 });
  leaveAnother();
  const shard = shardOf(current());
  const known = shardTold(current());
  if (!known?.version) {
    const why = known
      ? (known.reason ?? "the scheduler has not told its state yet; it does so every few minutes")
      : `there is no shard ${shard}; choose one of ${live.shards.map((each) => each.name).join(", ")}`;
    set({ cluster: null, clusterProblem: new Problem("busy", why), freshness: "waiting" });
    await pause(5, signal);
    return;
  }
  if (!live.sees.nodes || !live.sees.queues) {
    const why = `the map is for those who may list nodes and queues; you may not list ${live.sees.nodes ? "queues" : "nodes"}`;
    set({ cluster: null, clusterProblem: new Problem("rights", why), freshness: "live" });
    await pause(30, signal);
    return;
  }
  const cluster = await clusterOf(shard, signal);
  heard();
  await changes(question("live/changes", { shard, version: cluster.version }), signal);
}

/** Whether the state that is known is of another shard than the one that is looked at. */
function isOfAnother(): boolean {
  const { cluster } = current();
  return cluster !== null && cluster.frame.shard !== shardOf(current());
}

/** Shows no shard under the name of another, however long that one lets wait for its state. */
function leaveAnother(): void {
  if (isOfAnother()) set({ cluster: null, clusterProblem: null, freshness: "waiting" });
}

/** The state that is known already, if its changes can be told; else a whole one. */
async function clusterOf(shard: string, signal: AbortSignal): Promise<Cluster> {
  const known = current().cluster;
  if (known && !outdated) {
    set({ freshness: "live" });
    return known;
  }
  const cluster = opened(await ask<Frame>(question("live/cluster", { shard }), signal));
  outdated = false;
  set({ cluster, clusterProblem: null, revision: current().revision + 1, freshness: "live" });
  return cluster;
}

async function changes(path: string, signal: AbortSignal): Promise<void> {
  const body = await listen(path, signal);
  const reader = body
    .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
    .getReader();
  const events = new Reader();
  for (;;) {
    const { done, value } = await patient(reader.read(), reader);
    if (done) return;
    set({ heard: Date.now() / 1000, freshness: "live" });
    for (const told of events.push(value)) {
      if (told.event === "anew") {
        outdated = true;
        await reader.cancel();
        return;
      }
      if (told.event === "change") take(JSON.parse(told.data) as Change);
    }
  }
}

function take(change: Change): void {
  const { cluster, revision } = current();
  if (!cluster) return;
  const dirty = changed(cluster, change);
  set({ revision: revision + 1 });
  for (const each of [...dirtyListeners]) each(dirty);
}

/** What a reader gives; silence beyond measure is the end of it. */
async function patient<T>(read: Promise<T>, reader: ReadableStreamDefaultReader<string>): Promise<T> {
  let timer = 0;
  const silence = new Promise<never>((_, reject) => {
    timer = window.setTimeout(
      () => reject(new Problem("away", "the server fell silent")),
      SILENCE_SECONDS * 1000,
    );
  });
  try {
    return await Promise.race([read, silence]);
  } catch (error) {
    void reader.cancel().catch(() => undefined);
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

function pause(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = window.setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
