/** What stands around every view: where one is, where one can go, how fresh it all is. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { keepToken, token } from "../api/client";
import type { Found } from "../api/types";
import { follow } from "../follow";
import { count, plural, span } from "../model/format";
import { VIEWS, type View } from "../model/route";
import { go, say, to } from "../nav";
import { set, shardTold, useStore } from "../store";
import { Icon } from "./icons";
import { SearchBox } from "./search";

export const NAMES: Record<View, string> = {
  waiting: "Waiting",
  cluster: "Cluster",
  queues: "Queues",
  time: "Time",
  workload: "Workload",
  "what-if": "What if",
  health: "Health",
};

export function Frame({ children }: { children: ComponentChildren }): JSX.Element {
  const view = useStore((state) => state.route.view);
  return (
    <div class="frame">
      <a
        class="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("content")?.focus();
        }}
      >
        Skip to the content
      </a>
      <Header />
      <Navigation view={view} />
      <main id="content" class={`view view-${view}`} tabIndex={-1} aria-label={NAMES[view]}>
        <Reservation />
        {children}
      </main>
    </div>
  );
}

/** Why what is shown is not how it is now, or not all of it, where the server knows. */
function Reservation(): JSX.Element | null {
  const own = useStore((state) => state.live?.source === "kubeconfig");
  const reason = useStore((state) => {
    const shard = shardTold(state);
    return shard?.version ? (shard.reason ?? "") : "";
  });
  if (!reason) return null;
  return (
    <p class="old" role="status">
      <Icon name="warn" /> {own ? "Not all is shown" : "What is shown is old"}: {reason}
    </p>
  );
}

function Header(): JSX.Element {
  return (
    <header class="header">
      <a class="brand" href={to("waiting")}>
        <span class="brand-mark" aria-hidden="true" />
        KAI
      </a>
      <ShardChoice />
      <SearchBox onPick={openFound} />
      <FreshnessSign />
      <ThemeButton />
    </header>
  );
}

function openFound(found: Found): void {
  if (found.kind === "node") go("cluster", { node: found.name });
  else if (found.kind === "queue") go("queues", { queue: found.name });
  else go("workload", { namespace: found.namespace, name: found.name });
}

function ShardChoice(): JSX.Element | null {
  const live = useStore((state) => state.live);
  const chosen = useStore(shardTold);
  if (!live) return null;
  const source = live.source === "kubeconfig" ? "your kubeconfig" : "insight";
  return (
    <div class="shard" title={`${live.user} by ${source}, release ${live.release}`}>
      {live.shards.length > 1 || !chosen ? (
        <select
          aria-label="Shard"
          value={chosen?.name ?? ""}
          onChange={(event) => {
            say({ shard: event.currentTarget.value }, true);
          }}
        >
          {live.shards.map((each) => (
            <option key={each.name} value={each.name}>
              {each.name}
            </option>
          ))}
        </select>
      ) : (
        <strong>{chosen.name}</strong>
      )}
      {chosen && (
        <span class="faint shard-size">
          {plural(chosen.nodes, "node")} · {plural(chosen.gpus, "GPU")}
        </span>
      )}
    </div>
  );
}

function FreshnessSign(): JSX.Element {
  const freshness = useStore((state) => state.freshness);
  const seconds = useStore((state) => (state.heard ? Math.round(state.now - state.heard) : -1));
  const changed = useStore((state) => {
    return state.cluster ? Math.max(0, Math.round(state.now - state.cluster.at)) : -1;
  });
  const words = {
    waiting: "waiting",
    live: changed >= 0 ? `live · changed ${span(changed)} ago` : "live",
    stale: seconds >= 0 ? `stale · last heard ${span(seconds)} ago` : "stale",
  }[freshness];
  return (
    <span class={`fresh fresh-${freshness}`} title={words}>
      <span class="fresh-sign" aria-hidden="true" />
      <span class="fresh-short">{freshness}</span>
      <span class="fresh-long">{words.replace(freshness, "")}</span>
    </span>
  );
}

const THEMES = ["auto", "light", "dark"] as const;

function ThemeButton(): JSX.Element {
  const theme = useStore((state) => state.theme);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={`Colours: ${theme}; change to ${next}`}
      title={`Colours: ${theme}`}
      onClick={() => chooseTheme(next)}
    >
      <Icon name="theme" />
    </button>
  );
}

const THEME = "kai-theme";

function chooseTheme(theme: (typeof THEMES)[number]): void {
  localStorage.setItem(THEME, theme);
  set({ theme });
  applyTheme(theme);
}

function applyTheme(theme: (typeof THEMES)[number]): void {
  const dark = theme === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  set({ dark });
}

/** Takes the colours that were chosen before, or those of the system, and goes with these. */
export function startTheme(): void {
  const kept = localStorage.getItem(THEME);
  const theme = THEMES.find((each) => each === kept) ?? "auto";
  set({ theme });
  applyTheme(theme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    const known = THEMES.find((each) => each === localStorage.getItem(THEME)) ?? "auto";
    applyTheme(known);
  });
}

function Navigation({ view }: { view: View }): JSX.Element {
  useStore((state) => state.route.said.shard);
  const waiting = useStore((state) => {
    return state.cluster?.waiting.groups ?? 0;
  });
  return (
    <nav class="nav" aria-label="Views">
      <ul>
        {VIEWS.map((each) => (
          <li key={each}>
            <a href={to(each)} aria-current={each === view ? "page" : undefined}>
              <Icon name={each} />
              <span class="nav-name">{NAMES[each]}</span>
              {each === "waiting" && waiting > 0 && (
                <span class="nav-count">
                  {count(waiting)}
                  <span class="sr"> workloads wait</span>
                </span>
              )}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** Asked for where the server wants to know who is there. */
export function TokenForm({ message }: { message: string }): JSX.Element {
  const [value, setValue] = useState("");
  const [refused] = useState(() => token() !== "");
  useEffect(() => {
    document.getElementById("token")?.focus();
  }, []);
  return (
    <div class="gate">
      <form
        class="gate-card"
        onSubmit={(event) => {
          event.preventDefault();
          keepToken(value.trim());
          set({ problem: null });
          follow();
        }}
      >
        <h1>
          <span class="brand-mark" aria-hidden="true" /> KAI
        </h1>
        <p>
          {refused
            ? "The server does not know the token that was given, or not any more."
            : "The server shows everybody what he may see of this cluster. A token says who you are."}
        </p>
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          required
          value={value}
          onInput={(event) => setValue(event.currentTarget.value)}
        />
        <button type="submit" class="button button-main">
          Look
        </button>
        <p class="faint">Make one with your own rights, or those of a service account:</p>
        <pre class="gate-command" tabIndex={0}>
          kubectl create token default
        </pre>
        <p class="faint">
          It is kept for as long as this tab is open, and sent to nobody but this server. If{" "}
          <code>kai ui</code> opened this page, take the address that it printed, or start it again. The
          server said: {message}
        </p>
      </form>
    </div>
  );
}
