import { describe, expect, it } from "vitest";

import { HOME, type Route, VIEWS, fragment, parse, question, told } from "../src/model/route";

describe("the address", () => {
  it("says again what was read from it, whatever characters that has", () => {
    const said = { text: "a&b=c #? ü/<img src=x>", open: "team/pg-1" };
    for (const view of VIEWS) {
      const route: Route = { view, said };
      expect(parse(fragment(route))).toEqual(route);
    }
  });

  it("leads home where it says nothing that there is", () => {
    for (const wrong of ["", "#", "#/", "#/nothing", "#/__proto__?a=b"]) expect(parse(wrong)).toEqual(HOME);
  });

  it("has no empty texts", () => {
    expect(parse("#/waiting?queue=&text=x").said).toEqual({ text: "x" });
    expect(fragment(told({ view: "waiting", said: { queue: "a", text: "x" } }, { queue: "" }))).toBe(
      "#/waiting?text=x",
    );
  });

  it("takes no harm from percents that mean nothing", () =>
    expect(parse("#/waiting?text=%E0%A4%A").view).toBe("waiting"));
});

describe("a question", () => {
  it("asks what is said and nothing else", () => {
    expect(question("live/waiting", { queue: "a b", text: "", limit: 5, shard: undefined })).toBe(
      "live/waiting?queue=a+b&limit=5",
    );
    expect(question("live", {})).toBe("live");
  });
});
