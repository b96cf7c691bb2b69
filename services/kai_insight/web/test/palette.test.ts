import { describe, expect, it } from "vitest";

import { COLOURS, PATTERNS, STATES, look, stateLook } from "../src/model/palette";

function luminance(hex: string): number {
  const [red, green, blue] = [1, 3, 5]
    .map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((part) => (part <= 0.04 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

describe("looks", () => {
  it("are different for as many things as there are colours in patterns", () => {
    const all = Array.from({ length: COLOURS * PATTERNS.length }, (_, number) =>
      JSON.stringify(look(number, false)),
    );
    expect(new Set(all).size).toBe(all.length);
  });

  it("repeat for more, and are the same colours' turn in light and dark", () => {
    expect(look(COLOURS * PATTERNS.length, true)).toEqual(look(0, true));
    expect(look(9, true).pattern).toBe(look(9, false).pattern);
  });

  it.each([
    [false, "#ffffff", 2.8],
    [true, "#151a21", 4],
  ])("stand out from the ground (dark: %s)", (dark, ground, least) => {
    for (let number = 0; number < COLOURS; number++)
      expect(contrast(look(number, dark).colour, ground)).toBeGreaterThan(least);
  });

  it("of states differ by more than colour from running", () => {
    const patterns = STATES.map((_, state) => stateLook(state, false).pattern);
    expect(patterns[0]).toBe("plain");
    expect(patterns.slice(1)).not.toContain("plain");
  });
});
