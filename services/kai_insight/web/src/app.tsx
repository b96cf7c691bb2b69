import type { JSX } from "preact";
import { useEffect } from "preact/hooks";

import type { View } from "./model/route";
import { Frame, NAMES, TokenForm } from "./parts/frame";
import { Failure, Loading } from "./parts/states";
import { useShard, useStore } from "./store";
import { ClusterView } from "./views/cluster";
import { HealthView } from "./views/health";
import { QueuesView } from "./views/queues";
import { TimeView } from "./views/time";
import { WaitingView } from "./views/waiting";
import { WhatIfView } from "./views/what-if";
import { WorkloadView } from "./views/workload";

const SHOWN: Record<View, () => JSX.Element> = {
  waiting: WaitingView,
  cluster: ClusterView,
  queues: QueuesView,
  time: TimeView,
  workload: WorkloadView,
  "what-if": WhatIfView,
  health: HealthView,
};

export function App(): JSX.Element {
  const view = useStore((state) => state.route.view);
  const shard = useShard();
  const live = useStore((state) => state.live);
  const problem = useStore((state) => state.problem);
  useEffect(() => {
    document.title = `${NAMES[view]} · KAI`;
  }, [view]);
  if (problem?.kind === "token") return <TokenForm message={problem.message} />;
  const Shown = SHOWN[view];
  return (
    <Frame>
      {live ? (
        <Shown key={`${view} ${shard}`} />
      ) : problem ? (
        <Failure problem={problem} />
      ) : (
        <Loading what="The cluster" />
      )}
    </Frame>
  );
}
