/** The map: who sits on which GPU, what is free, and what would still fit. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { count, percent, plural } from "../model/format";
import { type Cluster, use } from "../model/cluster";
import type { ColourBy } from "../map/paint";
import { say } from "../nav";
import { GpuTable, NodeTable } from "../parts/cluster-tables";
import { Legend } from "../parts/legend";
import { MapCanvas } from "../parts/map-canvas";
import { NodePane } from "../parts/node-pane";
import { Rooms } from "../parts/rooms";
import { Split } from "../parts/split";
import { Empty, Failure, Hidden, Loading } from "../parts/states";
import { Choice, Meter } from "../parts/words";
import { useStore } from "../store";

const SHOWS = [
  ["map", "Map"],
  ["nodes", "Nodes"],
  ["gpus", "GPUs"],
] as const;
const COLOURS: readonly (readonly [ColourBy, string])[] = [
  ["queue", "Queue"],
  ["workload", "Workload"],
  ["state", "State"],
];

export function ClusterView(): JSX.Element {
  const cluster = useStore((state) => state.cluster);
  const problem = useStore((state) => state.clusterProblem);
  if (!cluster) return problem ? <Failure problem={problem} /> : <Loading what="The map" />;
  if (cluster.frame.nodes.name.length === 0)
    return (
      <Empty title="There are no nodes">
        <p>No node of this shard is known to the scheduler.</p>
      </Empty>
    );
  return <Shown cluster={cluster} />;
}

function Shown({ cluster }: { cluster: Cluster }): JSX.Element {
  const said = useStore((state) => state.route.said);
  const revision = useStore((state) => state.revision);
  // The cluster is changed in place; its revision tells when.
  // eslint-disable-next-line react-hooks/exhaustive-deps
  const used = useMemo(() => use(cluster), [cluster, revision]);
  const show = said.show ?? "map";
  const by = COLOURS.find(([each]) => each === said.colour)?.[0] ?? "queue";
  const node = cluster.frame.nodes.name.indexOf(said.node ?? "");
  return (
    <Split
      title={said.node ?? ""}
      opened={said.node ?? ""}
      onClose={() => say({ node: "" })}
      detail={node >= 0 ? <NodePane cluster={cluster} node={node} by={by} /> : null}
    >
      <h1 class="sr">Cluster</h1>
      <div class="bar">
        <Choice
          label="Show"
          options={SHOWS}
          value={show as "map"}
          onChange={(value) => say({ show: value === "map" ? "" : value })}
        />
        <span class="bar-sum">
          <Meter
            part={used.inUse}
            of={used.total}
            label={`${count(used.inUse)} of ${count(used.total)} GPUs in use`}
          />
          <strong>{count(Math.round(used.inUse * 10) / 10)}</strong>
          <span class="faint">
            {" "}
            of {plural(used.total, "GPU")} in use, {percent(used.inUse, used.total)}
          </span>
        </span>
        {show === "map" && (
          <Choice
            label="Colour by"
            options={COLOURS}
            value={by}
            onChange={(value) => say({ colour: value === "queue" ? "" : value, pick: "" })}
          />
        )}
      </div>
      {show === "map" && (
        <>
          <Legend cluster={cluster} used={used} by={by} />
          <MapCanvas key={cluster.frame.version} cluster={cluster} by={by} node={node} />
          <Rooms cluster={cluster} />
        </>
      )}
      {show === "nodes" && <NodeTable cluster={cluster} used={used} opened={said.node ?? ""} />}
      {show === "gpus" && <GpuTable cluster={cluster} opened={said.node ?? ""} />}
      <Hidden count={cluster.hidden.groups} what="workloads are" />
    </Split>
  );
}
