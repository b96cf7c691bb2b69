/** Numbers as people read them. Every one of them keeps its width while it changes little. */

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;
const UNIQUE = /^pg-(.+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** GPUs, or any other number of which parts count: at most two digits after the point. */
export function count(value: number): string {
  if (value < 0) return "∞";
  return value.toLocaleString("en", { maximumFractionDigits: 2 });
}

/** A number that may be less than zero, which stands for nothing else there: a priority. */
export function signed(value: number): string {
  return value.toLocaleString("en");
}

/** As `count`, of numbers below each other: their points stand in one line, with one digit after it if any has some. */
export function lined(values: readonly number[]): (value: number) => string {
  const digits = values.every(Number.isInteger) ? 0 : 1;
  const form = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return (value) => (value < 0 ? "∞" : value.toLocaleString("en", form));
}

/** Thousandths of CPUs, as CPUs. */
export function cpus(millis: number): string {
  return millis < 0 ? "∞" : (millis / 1000).toLocaleString("en", { maximumFractionDigits: 1 });
}

export function bytes(value: number): string {
  if (value < 0) return "∞";
  const power = value < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(value) / 10));
  const shown = value / 1024 ** power;
  return `${shown.toLocaleString("en", { maximumFractionDigits: shown < 100 ? 1 : 0 })} ${UNITS[power]}`;
}

export function percent(part: number, of: number): string {
  return of > 0 ? `${Math.round((100 * part) / of)} %` : "–";
}

/** A span in its two largest units: 45 s, 3 m 20 s, 2 h 5 m, 6 d 3 h. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < MINUTE) return `${whole} s`;
  if (whole < HOUR) return two(whole, MINUTE, "m", 1, "s");
  if (whole < DAY) return two(whole, HOUR, "h", MINUTE, "m");
  return two(whole, DAY, "d", HOUR, "h");
}

function two(whole: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((whole % large) / small);
  return `${Math.floor(whole / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ""}`;
}

/** Short, for what lasts less than a second, too. */
export function latency(seconds: number): string {
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
}

/** A moment, by the clock of who looks: with the day where it is another one. */
export function moment(at: number, now: number): string {
  const then = new Date(at * 1000);
  const time = `${pad(then.getHours())}:${pad(then.getMinutes())}:${pad(then.getSeconds())}`;
  return then.toDateString() === new Date(now * 1000).toDateString() ? time : `${day(then)} ${time}`;
}

function day(of: Date): string {
  return `${pad(of.getDate())} ${of.toLocaleString("en", { month: "short" })}`;
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}

/** A pod group's name as people think of it: without what makes it unique. */
export function short(podGroup: string): string {
  return podGroup.replace(UNIQUE, "$1");
}

export function plural(of: number, one: string, many = `${one}s`): string {
  return `${count(of)} ${of === 1 ? one : many}`;
}
