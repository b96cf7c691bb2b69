import { defineConfig } from "vitest/config";

// None of them takes long; where the machine has other work, it is in no hurry to run them.
export default defineConfig({
  test: { include: ["test/**/*.test.ts"], environment: "node", testTimeout: 120_000 },
});
