import { render } from "preact";

import { App } from "./app";
import { follow, followWhileSeen } from "./follow";
import { followAddress } from "./nav";
import { startTheme } from "./parts/frame";
import { set } from "./store";
import "uplot/dist/uPlot.min.css";
import "./app.css";

startTheme();
followAddress((before, now) => {
  if ((before.said.shard ?? "") !== (now.said.shard ?? "")) follow();
});
setInterval(() => set({ now: Date.now() / 1000 }), 1000);
followWhileSeen();
const root = document.getElementById("app");
if (root) render(<App />, root);
