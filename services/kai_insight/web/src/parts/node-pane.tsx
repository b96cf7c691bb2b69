/** One node: what it offers, who is on it, what is free. */

import type { JSX } from "preact";

import type { NodeDetail } from "../api/types";
import { useAsked } from "../asked";
import { type Cluster, holders } from "../model/cluster";
import { bytes, count, cpus, plural, span } from "../model/format";
import { NODE_STATES } from "../model/palette";
import { question } from "../model/route";
import { type ColourBy, lookOf } from "../map/paint";
import { to } from "../nav";
import { useClock, useShard, useStore } from "../store";
import { mapStyle } from "./map-style";
import { Answered, Hidden } from "./states";
import { Fact, Facts, Meter, Swatch } from "./words";

const EVERY_SECONDS = 5;

interface Props {
  cluster: Cluster;
  node: number;
  by: ColourBy;
}

export function NodePane({ cluster, node, by }: Props): JSX.Element {
  const shard = useShard();
  useStore((state) => state.revision);
  const name = cluster.frame.nodes.name[node];
  const asked = useAsked<NodeDetail>(question("live/node", { shard, name }), EVERY_SECONDS);
  return (
    <>
      <Devices cluster={cluster} node={node} by={by} />
      <Answered asked={asked} what="The node">
        {(data) => <Detail node={data} />}
      </Answered>
    </>
  );
}

/** The node's GPUs, large enough for their parts to be read. */
function Devices({ cluster, node, by }: Props): JSX.Element | null {
  const dark = useStore((state) => state.dark);
  const first = cluster.offset[node];
  const gpus = cluster.offset[node + 1] - first;
  if (gpus === 0) return <p class="faint">This node has no GPUs.</p>;
  const style = mapStyle(cluster, by, dark, "");
  return (
    <ol class="devices" aria-label="GPUs of this node">
      {Array.from({ length: gpus }, (_, slot) => {
        const held = holders(cluster, first + slot);
        const part = held.reduce((sum, [, each]) => sum + each, 0);
        return (
          <li key={slot} class="device">
            <span class="device-name">{slot}</span>
            {held.map(([group, each], place) => (
              <span key={place} class="device-part" style={{ height: `${each}%` }}>
                <Swatch of={lookOf(cluster, style, group)} />
              </span>
            ))}
            <span class="device-free number">
              {part === 0 ? "free" : part < 100 ? `${100 - part} %` : ""}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

function Detail({ node }: { node: NodeDetail }): JSX.Element {
  return (
    <>
      {node.state > 0 && (
        <p class="node-state">
          <span class={`node-sign node-sign-${node.state}`} aria-hidden="true" />{" "}
          <strong>{NODE_STATES[node.state]}</strong>
          {node.why && `: ${node.why}`}
        </p>
      )}
      <Facts>
        {node.domain.length > 0 && <Fact name="Where">{node.domain.join(" › ")}</Fact>}
        {node.model && <Fact name="Model">{node.model}</Fact>}
        <Fact name="GPUs">
          {count(node.gpusUsed)} of {count(node.gpus)} in use
        </Fact>
        <Fact name="CPUs">
          <Meter part={node.cpu.allocated} of={node.cpu.offered} label="CPUs in use" />{" "}
          {cpus(node.cpu.allocated)} of {cpus(node.cpu.offered)}
        </Fact>
        <Fact name="Memory">
          <Meter part={node.memory.allocated} of={node.memory.offered} label="Memory in use" />{" "}
          {bytes(node.memory.allocated)} of {bytes(node.memory.offered)}
        </Fact>
        {node.taints.length > 0 && (
          <Fact name="Taints">
            {node.taints.map((each) => (
              <code key={each} class="taint">
                {each}
              </code>
            ))}
          </Fact>
        )}
      </Facts>
      <h3>{plural(node.pods.length, "pod")}</h3>
      {node.pods.length === 0 && <p class="faint">Nothing that you may see is on this node.</p>}
      <ul class="pods">
        {node.pods.map((each) => (
          <Pod key={`${each.namespace}/${each.name}`} pod={each} />
        ))}
      </ul>
      <Hidden count={node.hidden} what="pods are" />
      <p>
        <a href={to("what-if", { change: "drain", target: node.name })}>What if it were drained?</a>
      </p>
    </>
  );
}

function Pod({ pod }: { pod: NodeDetail["pods"][number] }): JSX.Element {
  const now = useClock();
  const gpus =
    pod.portion !== null
      ? `${Math.round(pod.portion * 100)} % of a GPU`
      : pod.gpus > 0
        ? plural(pod.gpus, "GPU")
        : "no GPU";
  return (
    <li>
      <span class="pod-line">
        <span class="cut strong" title={pod.name}>
          {pod.podGroup ? (
            <a href={to("workload", { namespace: pod.namespace, name: pod.podGroup })}>{pod.name}</a>
          ) : (
            pod.name
          )}
        </span>
        <span class="number">{gpus}</span>
      </span>
      <span class="pod-line faint">
        <span class="cut">
          {pod.namespace}
          {pod.queue ? ` · ${pod.queue}` : ""} · {pod.state}
          {pod.preemptible ? "" : " · not preemptible"}
        </span>
        <span class="number">
          {pod.devices.length > 0 ? `on ${pod.devices.join(", ")}` : ""}
          {pod.since > 0 ? ` · ${span(now - pod.since)}` : ""}
        </span>
      </span>
    </li>
  );
}
