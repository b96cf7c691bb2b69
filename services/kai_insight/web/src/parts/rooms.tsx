/** How many pods of a shape still find room, in all and in the domains that have most. */

import type { JSX } from "preact";

import type { Slots } from "../api/types";
import { useAsked } from "../asked";
import { type Cluster, domainAddress, domainPath } from "../model/cluster";
import { count, plural } from "../model/format";
import { question } from "../model/route";
import { say } from "../nav";
import { useShard } from "../store";

const EVERY_SECONDS = 10;

export function Rooms({ cluster }: { cluster: Cluster }): JSX.Element | null {
  const shard = useShard();
  // Domains are told by their places in the frame, and another one has others there.
  const asked = useAsked<Slots>(question("live/slots", { shard }), EVERY_SECONDS, cluster.frame.version);
  const slots = asked.data;
  if (!slots)
    return asked.problem ? <p class="faint foot">What still fits: {asked.problem.message}</p> : null;
  return (
    <section class="rooms" aria-label="What still fits">
      <h2>Room for a gang of</h2>
      <ul>
        {slots.shapes.map((shape, index) => {
          const best = largest(slots, index);
          return (
            <li key={shape}>
              <span class="rooms-count number">{count(slots.all[index])}</span>
              <span class="rooms-shape">pods of {plural(shape, "GPU")}</span>
              {best && best.slots > 0 && (
                <button
                  type="button"
                  class="link rooms-best"
                  title={domainPath(cluster, best.domain).join(" › ")}
                  onClick={() => say({ domain: domainAddress(cluster, best.domain) })}
                >
                  {count(best.slots)} in {cluster.frame.domains.name[best.domain]}
                </button>
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** The innermost domain with most room for a shape. */
function largest(slots: Slots, shape: number): { domain: number; slots: number } | null {
  let found: { domain: number; slots: number } | null = null;
  for (const each of slots.domains)
    if (!found || each.slots[shape] >= found.slots) found = { domain: each.index, slots: each.slots[shape] };
  return found;
}
