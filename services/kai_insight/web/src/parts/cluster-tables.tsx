/** The same as on the map, in rows: for keyboards, for screen readers, and for who wants numbers. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { type Cluster, type Use, domainOf, holders } from "../model/cluster";
import { count } from "../model/format";
import { NODE_STATES } from "../model/palette";
import { nameOf, useNames } from "../names";
import { say } from "../nav";
import { useStore } from "../store";
import { type Column, Table } from "./table";
import { Meter } from "./words";

type NodeOrder = "place" | "free" | "used";

export function NodeTable({
  cluster,
  used,
  opened,
}: {
  cluster: Cluster;
  used: Use;
  opened: string;
}): JSX.Element {
  const sort = useStore((state) => (state.route.said.sort ?? "place") as NodeOrder);
  // Rows keep their places while values change: they are put in order when somebody asks for an order.
  // eslint-disable-next-line react-hooks/exhaustive-deps
  const order = useMemo(() => ordered(cluster, used, sort), [cluster, sort]);
  const { nodes } = cluster.frame;
  const columns: Column<number>[] = [
    { id: "node", title: "Node", cell: (node) => <span class="cut strong">{nodes.name[node]}</span> },
    {
      id: "where",
      title: "Where",
      from: 620,
      cell: (node) => <span class="cut faint">{domainOf(cluster, node).join(" › ")}</span>,
    },
    {
      id: "model",
      title: "Model",
      from: 820,
      cell: (node) => <span class="cut faint">{cluster.frame.models[nodes.model[node]]}</span>,
    },
    {
      id: "state",
      title: "State",
      width: 120,
      from: 480,
      cell: (node) => (
        <span class={cluster.nodeState[node] ? "" : "faint"}>{NODE_STATES[cluster.nodeState[node]]}</span>
      ),
    },
    {
      id: "use",
      title: "In use",
      width: 110,
      from: 400,
      cell: (node) => (
        <Meter
          part={used.used[node]}
          of={nodes.gpus[node]}
          label={`${count(used.used[node])} of ${count(nodes.gpus[node])}`}
        />
      ),
    },
    {
      id: "used",
      title: "GPUs",
      width: 92,
      numeric: true,
      cell: (node) => (
        <>
          {count(used.used[node])} <span class="faint">of {count(nodes.gpus[node])}</span>
        </>
      ),
    },
    { id: "free", title: "Free", width: 64, numeric: true, cell: (node) => count(used.free[node]) },
  ];
  return (
    <Table
      label="Nodes"
      columns={columns}
      count={order.length}
      row={(index) => order[index]}
      rowKey={(node) => nodes.name[node]}
      open={(node) => say({ node: nodes.name[node] === opened ? "" : nodes.name[node] })}
      opened={opened}
      sort={sort}
      sorts={{ node: "place", used: "used", free: "free" }}
      onSort={(by) => say({ sort: by === "place" ? "" : by })}
      rowHeight={34}
    />
  );
}

function ordered(cluster: Cluster, used: Use, sort: NodeOrder): number[] {
  const nodes = cluster.frame.nodes.name.map((_, node) => node);
  if (sort === "free") return nodes.sort((one, other) => used.free[other] - used.free[one] || one - other);
  if (sort === "used") return nodes.sort((one, other) => used.used[other] - used.used[one] || one - other);
  return nodes;
}

interface Gpu {
  slot: number;
  node: number;
}

export function GpuTable({ cluster, opened }: { cluster: Cluster; opened: string }): JSX.Element {
  useStore((state) => state.revision);
  useNames();
  const { nodes } = cluster.frame;
  const nodeOf = useMemo(() => owners(cluster), [cluster]);
  const columns: Column<Gpu>[] = [
    {
      id: "gpu",
      title: "GPU",
      cell: ({ slot, node }) => (
        <span class="cut strong">
          {nodes.name[node]} <span class="faint">/ {slot - cluster.offset[node]}</span>
        </span>
      ),
    },
    {
      id: "holder",
      title: "Held by",
      cell: ({ slot }) => <Holders cluster={cluster} slot={slot} />,
    },
    {
      id: "queue",
      title: "Queue",
      width: 140,
      from: 560,
      cell: ({ slot }) => <span class="cut">{queuesOf(cluster, slot)}</span>,
    },
    { id: "part", title: "In use", width: 80, numeric: true, cell: ({ slot }) => partOf(cluster, slot) },
  ];
  return (
    <Table
      label="GPUs"
      columns={columns}
      count={cluster.slots.length}
      row={(slot) => ({ slot, node: nodeOf[slot] })}
      rowKey={({ slot }) => String(slot)}
      open={({ node }) => say({ node: nodes.name[node] === opened ? "" : nodes.name[node] })}
      rowHeight={30}
    />
  );
}

function owners(cluster: Cluster): Int32Array {
  const found = new Int32Array(cluster.slots.length);
  for (let node = 0; node < cluster.nodeState.length; node++)
    found.fill(node, cluster.offset[node], cluster.offset[node + 1]);
  return found;
}

function Holders({ cluster, slot }: { cluster: Cluster; slot: number }): JSX.Element {
  const held = holders(cluster, slot);
  if (held.length === 0) return <span class="faint">free</span>;
  const names = held.map(([group]) => {
    const key = group < 0 ? 0 : cluster.groups.key[group];
    if (key === 0) return "not told";
    const name = nameOf(cluster, key);
    return name ? `${name.namespace}/${name.workload || name.name}` : "…";
  });
  return (
    <span class="cut" title={names.join(", ")}>
      {names.join(", ")}
    </span>
  );
}

function queuesOf(cluster: Cluster, slot: number): string {
  const queues = holders(cluster, slot).map(([group]) => (group < 0 ? -1 : cluster.groups.queue[group]));
  return [...new Set(queues)].flatMap((queue) => (queue < 0 ? [] : [cluster.queues.name[queue]])).join(", ");
}

function partOf(cluster: Cluster, slot: number): string {
  const part = holders(cluster, slot).reduce((sum, [, each]) => sum + each, 0);
  return part ? `${part} %` : "–";
}
