/** A list, and what was opened of it: beside it where there is room, else over it. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { Icon } from "./icons";

interface Props {
  children: ComponentChildren;
  detail: ComponentChildren | null;
  title: string;
  /** Changes when something else is opened. */
  opened: string;
  onClose: () => void;
}

export function Split({ children, detail, title, opened, onClose }: Props): JSX.Element {
  const pane = useRef<HTMLElement>(null);
  const narrow = (): boolean => matchMedia("(max-width: 900px)").matches;
  useEffect(() => {
    if (opened && narrow()) pane.current?.querySelector<HTMLElement>(".pane-close")?.focus();
  }, [opened]);
  return (
    <div class={`split${detail ? " split-open" : ""}`}>
      <div class="split-list">{children}</div>
      {detail && (
        <aside
          class="pane"
          ref={pane}
          aria-label={title}
          onKeyDown={(event) => {
            if (event.key === "Escape") onClose();
          }}
        >
          <header class="pane-head">
            <h2>{title}</h2>
            <button
              type="button"
              class="icon-button pane-close"
              aria-label="Close"
              title="Close"
              onClick={onClose}
            >
              <Icon name="close" />
            </button>
          </header>
          <div class="pane-body" tabIndex={0} role="region" aria-label={title}>
            {detail}
          </div>
        </aside>
      )}
    </div>
  );
}
