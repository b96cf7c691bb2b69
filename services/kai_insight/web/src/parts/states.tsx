/** What a view shows while it has nothing to show. */

import type { ComponentChildren, JSX } from "preact";

import type { Problem } from "../api/client";
import type { Asked } from "../asked";
import { span } from "../model/format";
import { useStore } from "../store";
import { Icon } from "./icons";

const TITLES: Record<Problem["kind"], string> = {
  token: "A token is needed",
  rights: "You may not see this",
  missing: "There is no such thing",
  busy: "Not yet",
  away: "No answer",
  refused: "This cannot be answered",
};

export function Loading({ what }: { what: string }): JSX.Element {
  return (
    <div class="loading" role="status">
      <span class="sr">{what} is loading</span>
      {[72, 88, 64, 80, 56, 76].map((width) => (
        <span key={width} class="bone" style={{ width: `${width}%` }} />
      ))}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="notice">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Failure({ problem, again }: { problem: Problem; again?: () => void }): JSX.Element {
  return (
    <div class={`notice notice-${problem.kind}`} role="alert">
      <Icon name="warn" />
      <h2>{TITLES[problem.kind]}</h2>
      <p>{problem.message}</p>
      {problem.passes && <p class="faint">It is tried again by itself.</p>}
      {again && problem.kind !== "rights" && (
        <button type="button" class="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** The answer, or what stands for it; an answer that could not be renewed is shown with a word about that. */
export function Answered<T>(props: {
  asked: Asked<T>;
  what: string;
  children: (data: T) => ComponentChildren;
}): JSX.Element {
  const { asked, what, children } = props;
  if (asked.data === null)
    return asked.problem ? <Failure problem={asked.problem} again={asked.again} /> : <Loading what={what} />;
  return (
    <>
      {asked.problem && <Old problem={asked.problem} at={asked.at} />}
      {children(asked.data)}
    </>
  );
}

function Old({ problem, at }: { problem: Problem; at: number }): JSX.Element {
  const now = useStore((state) => state.now);
  return (
    <p class="old" role="status">
      <Icon name="warn" /> From {span(now - at)} ago: {problem.message}
    </p>
  );
}

export function Hidden({ count, what }: { count: number; what: string }): JSX.Element | null {
  if (count <= 0) return null;
  return (
    <p class="faint hidden-note">
      {count.toLocaleString("en")} more {what} in namespaces that you may not see.
    </p>
  );
}
