/** Small signs: verdicts, looks, amounts. None says anything by colour alone. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import type { Look } from "../model/palette";
import { Icon } from "./icons";

const VERDICTS: Readonly<Partial<Record<string, { sign: string; meaning: string }>>> = {
  RUNS: { sign: "▶", meaning: "nothing of it waits" },
  WAIT: { sign: "◷", meaning: "it starts without anybody doing anything" },
  CHANGE: { sign: "✎", meaning: "something about it, or about its queue, has to be changed first" },
  ESCALATE: { sign: "▲", meaning: "it needs more capacity, or somebody who administers the cluster" },
  NEVER: { sign: "✕", meaning: "no node of this cluster can take it as it is" },
};

export const VERDICT_ORDER = ["NEVER", "ESCALATE", "CHANGE", "WAIT"];

export function verdictMeaning(verdict: string): string {
  return VERDICTS[verdict]?.meaning ?? "nothing was found about it yet";
}

export function Verdict({ verdict }: { verdict: string }): JSX.Element {
  const known = VERDICTS[verdict];
  return (
    <span
      class={`verdict verdict-${known ? verdict.toLowerCase() : "unknown"}`}
      title={verdictMeaning(verdict)}
    >
      <span class="sign" aria-hidden="true">
        {known?.sign ?? "…"}
      </span>
      {known ? verdict : "looking"}
    </span>
  );
}

export function Swatch({ of }: { of: Look }): JSX.Element {
  return <span class={`swatch swatch-${of.pattern}`} style={{ "--swatch": of.colour }} aria-hidden="true" />;
}

/** A part of a whole as a bar; the numbers stand beside it. */
export function Meter(props: { part: number; of: number; label: string }): JSX.Element {
  const share = props.of > 0 ? Math.min(1, props.part / props.of) : 0;
  return (
    <span class="meter" role="img" aria-label={props.label}>
      <span class="meter-fill" style={{ width: `${share * 100}%` }} />
    </span>
  );
}

export function Copy({ text, label }: { text: string; label: string }): JSX.Element {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 1600);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={done ? "Copied" : label}
      title={done ? "Copied" : label}
      onClick={() => void copy(text).then(setDone)}
    >
      <Icon name={done ? "done" : "copy"} />
    </button>
  );
}

/** Whether it is on the clipboard now. Browsers have one only where the address is trusted. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyFromField(text);
  }
}

function copyFromField(text: string): boolean {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "sr";
  document.body.append(field);
  field.select();
  // The only way on pages over plain HTTP.
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

export function Command({ text }: { text: string }): JSX.Element {
  return (
    <div class="command">
      <code>{text}</code>
      <Copy text={text} label="Copy the command" />
    </div>
  );
}

export function Facts({ children }: { children: ComponentChildren }): JSX.Element {
  return <dl class="facts">{children}</dl>;
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }): JSX.Element {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** One of few: buttons of which one is pressed. */
export function Choice<T extends string>(props: {
  label: string;
  options: readonly (readonly [value: T, name: string])[];
  value: T;
  onChange: (value: T) => void;
}): JSX.Element {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.options.map(([value, name]) => (
        <button
          key={value}
          type="button"
          aria-pressed={value === props.value}
          onClick={() => props.onChange(value)}
        >
          {name}
        </button>
      ))}
    </div>
  );
}
