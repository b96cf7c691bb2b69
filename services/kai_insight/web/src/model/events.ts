/** Server-sent events, as they come in pieces. */

export interface Told {
  event: string;
  data: string;
}

/** Keeps what is not whole yet. Comments come out as events without data. */
export class Reader {
  private rest = "";

  push(text: string): Told[] {
    const blocks = (this.rest + text.replace(/\r\n?/g, "\n")).split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.map(read);
  }
}

function read(block: string): Told {
  let event = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (colon > 0 && line.slice(0, colon) === "event") event = value;
    else if (colon > 0 && line.slice(0, colon) === "data") data.push(value);
    else if (colon === 0) event = "comment";
  }
  return { event, data: data.join("\n") };
}
