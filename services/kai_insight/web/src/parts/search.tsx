/** Search for anything: nodes, workloads, queues. */

import type { JSX, TargetedKeyboardEvent } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";

import type { Found } from "../api/types";
import { useAsked } from "../asked";
import { question } from "../model/route";
import { useShard } from "../store";
import { Icon } from "./icons";

const KINDS = { node: "node", group: "workload", queue: "queue" } as const;
const PAUSE_MILLISECONDS = 160;

interface Props {
  label: string;
  placeholder: string;
  onPick: (found: Found) => void;
  /** Only such things; all, if nothing is said. */
  only?: Found["kind"];
  /** What is written, where it is the value of a form; else what was picked is cleared. */
  value?: string;
  onText?: (text: string) => void;
  id?: string;
}

/** A field that suggests what there is. */
export function Suggest(props: Props): JSX.Element {
  const { label, placeholder, onPick, only, value, onText } = props;
  const shard = useShard();
  const [own, setOwn] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const text = value ?? own;
  const asked = useLater(text.split(",").pop()?.trim() ?? "");
  const list = useId();
  const path = open && asked ? question("live/search", { shard, text: asked, limit: 12 }) : null;
  const answer = useAsked<{ items: Found[]; more: boolean }>(path);
  const items = (answer.data?.items ?? []).filter((each) => !only || each.kind === only);
  const field = useRef<HTMLInputElement>(null);

  const pick = (found: Found): void => {
    setOpen(false);
    if (!onText) {
      setOwn("");
      field.current?.blur();
    }
    onPick(found);
  };
  const onKeyDown = (event: TargetedKeyboardEvent<HTMLInputElement>): void => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step && items.length) {
      event.preventDefault();
      setAt((at + step + items.length) % items.length);
    } else if (event.key === "Enter" && open && items.length) {
      event.preventDefault();
      pick(items[Math.min(at, items.length - 1)]);
    } else if (event.key === "Escape") {
      setOpen(false);
      if (!onText) setOwn("");
    }
  };
  const shown = open && asked !== "";
  return (
    <div
      class="suggest"
      onFocusOut={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOpen(false);
      }}
    >
      <input
        ref={field}
        id={props.id}
        type="text"
        inputMode="search"
        enterkeyhint="search"
        role="combobox"
        aria-label={label}
        aria-expanded={shown}
        aria-controls={list}
        aria-autocomplete="list"
        aria-activedescendant={
          shown && items.length ? `${list}-${Math.min(at, items.length - 1)}` : undefined
        }
        placeholder={placeholder}
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => {
          (onText ?? setOwn)(event.currentTarget.value);
          setOpen(true);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul class="suggestions" id={list} role="listbox" aria-label="Found" hidden={!shown}>
        {items.map((each, index) => (
          <li
            key={`${each.kind} ${each.namespace}/${each.name}`}
            id={`${list}-${index}`}
            role="option"
            aria-selected={index === at}
            onMouseDown={(event) => {
              event.preventDefault();
              pick(each);
            }}
          >
            <span class="found-kind">{KINDS[each.kind]}</span>
            <span class="found-name">{each.name}</span>
            <span class="faint">{each.namespace}</span>
          </li>
        ))}
        {answer.data && items.length === 0 && (
          <li role="option" aria-selected={false} aria-disabled="true" class="faint">
            nothing is called so
          </li>
        )}
      </ul>
    </div>
  );
}

/** A text, a moment after it was last changed. */
function useLater(text: string): string {
  const [later, setLater] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setLater(text), PAUSE_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [text]);
  return later;
}

export function SearchBox({ onPick }: { onPick: (found: Found) => void }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  // Before it is drawn: whoever sees the field may press its key.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.key !== "/" || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
      event.preventDefault();
      box.current?.querySelector("input")?.focus();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <div class="search" ref={box}>
      <Icon name="search" />
      <Suggest label="Search nodes, workloads and queues" placeholder="Search  ( / )" onPick={onPick} />
    </div>
  );
}
