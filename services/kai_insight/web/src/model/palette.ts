/** Which look stands for what: a colour that people with any sight tell apart, and a pattern where they run out. */

/** After Okabe and Ito; the lighter ones are for dark ground. */
const LIGHT = ["#0072b2", "#d98200", "#00856a", "#b8569a", "#3a97d4", "#c44e00", "#9a8700", "#6d58b0"];
const DARK = ["#4fa3dc", "#f0a830", "#35bd95", "#dd8fc0", "#86cbf2", "#ee7b3d", "#dccb45", "#a794e6"];
export const COLOURS = LIGHT.length;
export const PATTERNS = ["plain", "stripes", "dots"] as const;
export type Pattern = (typeof PATTERNS)[number];

export interface Look {
  colour: string;
  pattern: Pattern;
}

export const STATES = ["running", "starting", "being released", "part of it waits"] as const;
export const NODE_STATES = ["ready", "cordoned", "not ready", "set aside for a while"] as const;

/** The look of the number-th thing; they repeat after all colours in all patterns. */
export function look(number: number, dark: boolean): Look {
  const colours = dark ? DARK : LIGHT;
  const turn = Math.floor(number / COLOURS) % PATTERNS.length;
  return { colour: colours[number % COLOURS], pattern: PATTERNS[turn] };
}

const STATE_LOOKS: readonly (readonly [place: number, pattern: Pattern])[] = [
  [2, "plain"],
  [4, "stripes"],
  [5, "stripes"],
  [1, "dots"],
];

export function stateLook(state: number, dark: boolean): Look {
  const [place, pattern] = STATE_LOOKS[state];
  return { colour: (dark ? DARK : LIGHT)[place], pattern };
}
