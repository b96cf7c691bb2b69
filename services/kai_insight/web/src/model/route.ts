/** The address: which view, and all that it was told. It is a fragment, so no server sees it. */

export const VIEWS = ["waiting", "cluster", "queues", "time", "workload", "what-if", "health"] as const;
export type View = (typeof VIEWS)[number];

/** Never empty texts: what is empty is not there. */
export type Said = Readonly<Partial<Record<string, string>>>;

export interface Route {
  view: View;
  said: Said;
}

export const HOME: Route = { view: "waiting", said: {} };

export function parse(fragment: string): Route {
  const [path, query = ""] = fragment.replace(/^#?\/?/, "").split("?", 2);
  const view = VIEWS.find((each) => each === path);
  if (!view) return HOME;
  const said: Record<string, string> = {};
  for (const [key, value] of new URLSearchParams(query)) if (value) said[key] = value;
  return { view, said };
}

export function fragment(route: Route): string {
  const query = new URLSearchParams(entries(route.said)).toString();
  return `#/${route.view}${query ? `?${query}` : ""}`;
}

/** The same view, with some of what it was told said otherwise; empty texts take it away. */
export function told(route: Route, changes: Record<string, string>): Route {
  return { view: route.view, said: Object.fromEntries(entries({ ...route.said, ...changes })) };
}

function entries(said: Said): [string, string][] {
  return Object.entries(said).flatMap(([key, value]) => (value ? [[key, value]] : []));
}

/** The path of a question to the server; what is empty is not asked. */
export function question(path: string, said: Record<string, string | number | undefined>): string {
  const parts = Object.entries(said).flatMap(([key, value]) =>
    value === undefined || value === "" ? [] : [[key, String(value)]],
  );
  const query = new URLSearchParams(parts).toString();
  return query ? `${path}?${query}` : path;
}
