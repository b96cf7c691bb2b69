import { describe, expect, it } from "vitest";

import {
  bytes,
  count,
  cpus,
  latency,
  lined,
  percent,
  plural,
  short,
  signed,
  span,
} from "../src/model/format";

describe("numbers", () => {
  it.each([
    [0, "0"],
    [1.5, "1.5"],
    [0.333333, "0.33"],
    [40_000, "40,000"],
    [-1, "∞"],
  ])("%d GPUs are %s", (value, text) => expect(count(value)).toBe(text));

  it.each([
    [0, "0 B"],
    [1023, "1,023 B"],
    [1536, "1.5 KiB"],
    [120 * 2 ** 30, "120 GiB"],
    [2 ** 41, "2 TiB"],
    [-1, "∞"],
  ])("%d bytes are %s", (value, text) => expect(bytes(value)).toBe(text));

  it.each([
    [
      [12, 1024, -1],
      ["12", "1,024", "∞"],
    ],
    [
      [12, 182.75, -1],
      ["12.0", "182.8", "∞"],
    ],
  ])("numbers below each other have their points in one line: %j", (values, texts) =>
    expect(values.map(lined(values))).toEqual(texts),
  );

  it("a priority may be less than zero", () =>
    expect([-1, 0, 1000].map(signed)).toEqual(["-1", "0", "1,000"]));
  it("CPUs are told in whole ones", () =>
    expect([cpus(12_000), cpus(1500), cpus(-1)]).toEqual(["12", "1.5", "∞"]));
  it("nothing is no part of nothing", () => expect([percent(1, 3), percent(0, 0)]).toEqual(["33 %", "–"]));
  it("one is one", () =>
    expect([plural(1, "GPU"), plural(0.5, "GPU"), plural(2, "GPU")]).toEqual([
      "1 GPU",
      "0.5 GPUs",
      "2 GPUs",
    ]));
});

describe("times", () => {
  it.each([
    [-3, "0 s"],
    [59.4, "59 s"],
    [60, "1 m"],
    [200, "3 m 20 s"],
    [7500, "2 h 5 m"],
    [86_400 * 6 + 3 * 3600, "6 d 3 h"],
  ])("%d seconds are %s", (seconds, text) => expect(span(seconds)).toBe(text));

  it("short ones are told in milliseconds", () =>
    expect([latency(0.034), latency(2.25)]).toEqual(["34 ms", "2.3 s"]));
});

describe("names of pod groups", () => {
  it.each([
    ["pg-speech-training-16dd0af6-a754-4a9f-99a8-f155b5ffdd24", "speech-training"],
    ["pg-a", "pg-a"],
    ["mine-16dd0af6-a754-4a9f-99a8-f155b5ffdd24", "mine-16dd0af6-a754-4a9f-99a8-f155b5ffdd24"],
  ])("%s is called %s", (name, called) => expect(short(name)).toBe(called));
});
