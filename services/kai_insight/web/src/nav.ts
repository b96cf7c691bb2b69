/** Where one is, and how one gets elsewhere: by addresses, so that back, forward and links work. */

import { type Route, type View, fragment, parse, told } from "./model/route";
import { current, set } from "./store";

/** The address of a view in the shard that is looked at. */
export function to(view: View, said: Record<string, string> = {}): string {
  const { shard = "" } = current().route.said;
  return fragment(told({ view, said: {} }, { shard, ...said }));
}

export function go(view: View, said: Record<string, string> = {}): void {
  location.hash = to(view, said);
}

/** Says something about the view that is shown; a step that "back" takes back where `step` says so. */
export function say(changes: Record<string, string>, step = false): void {
  const route = told(current().route, changes);
  show(route, step);
}

function show(route: Route, step: boolean): void {
  const address = fragment(route);
  if (address === location.hash) return;
  if (step) location.hash = address;
  else {
    history.replaceState(null, "", address);
    set({ route });
  }
}

export function followAddress(changed: (before: Route, now: Route) => void): void {
  addEventListener("hashchange", () => {
    const before = current().route;
    const route = parse(location.hash);
    set({ route });
    changed(before, route);
  });
}
