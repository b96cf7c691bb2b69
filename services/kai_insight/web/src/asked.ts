/** A question of a view: asked, asked again every so often, with the last answer shown meanwhile. */

import { useCallback, useEffect, useState } from "preact/hooks";

import { Problem, ask } from "./api/client";
import { set } from "./store";

/** What failed for a while is asked again after so long, where the server does not say after how long. */
const AGAIN_SECONDS = 5;

export interface Asked<T> {
  data: T | null;
  /** The path that this is the answer to. */
  of: string;
  problem: Problem | null;
  loading: boolean;
  /** When the answer came, in Unix seconds. */
  at: number;
  again: () => void;
}

interface Kept<T> {
  of: string;
  subject: string | null;
  data: T | null;
  problem: Problem | null;
  at: number;
}

/**
 * `path` null asks nothing; `every`: seconds, 0 for once. Until there is an answer, the last one is shown that was
 * asked for the same `subject`; without one, for the same path.
 */
export function useAsked<T>(path: string | null, every = 0, subject: string | null = path): Asked<T> {
  const [kept, keep] = useState<Kept<T>>({ subject: "", of: "", data: null, problem: null, at: 0 });
  const [turn, next] = useState(0);

  useEffect(() => {
    if (path === null) return;
    const controller = new AbortController();
    let timer = 0;
    const look = (): void => void round();
    const round = async (): Promise<void> => {
      // Who does not look needs nothing new, until he does.
      if (document.hidden) {
        document.addEventListener("visibilitychange", look, { once: true, signal: controller.signal });
        return;
      }
      const answer = await answered<T>(path, controller.signal);
      if (controller.signal.aborted) return;
      keep((before) => ({
        subject,
        of: answer.data === null ? before.of : path,
        data: answer.data ?? (before.subject === subject ? before.data : null),
        problem: answer.problem,
        at: answer.data === null ? before.at : Date.now() / 1000,
      }));
      const wait = Math.max(every, answer.problem?.passes ? answer.problem.again || AGAIN_SECONDS : 0);
      if (wait > 0) timer = window.setTimeout(look, wait * 1000);
    };
    look();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [path, every, subject, turn]);

  const again = useCallback(() => next((before) => before + 1), []);
  const same = path !== null && kept.subject === subject;
  const data = same ? kept.data : null;
  const problem = same ? kept.problem : null;
  return { data, of: kept.of, problem, loading: path !== null && !data && !problem, at: kept.at, again };
}

interface Answer<T> {
  data: T | null;
  problem: Problem | null;
}

async function answered<T>(path: string, signal: AbortSignal): Promise<Answer<T>> {
  try {
    return { data: await ask<T>(path, signal), problem: null };
  } catch (error) {
    const problem = error instanceof Problem ? error : new Problem("away", String(error));
    if (problem.kind === "token") set({ problem });
    return { data: null, problem };
  }
}
