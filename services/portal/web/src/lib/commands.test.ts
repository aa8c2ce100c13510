import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { FindingSchema } from "../gen/daggers/v1/findings_pb.ts";
import { forPages, sentence } from "./commands.ts";
import { statement } from "./form.ts";

describe("a text of the gateway on a page", () => {
  it("names the button or the tab in the place of a command", () => {
    expect(forPages("See whether its host runs; if it lasts, use `daggers restart orders`.")).toBe(
      "See whether its host runs; if it lasts, use the button Restart.",
    );
    expect(forPages("`daggers logs orders --previous` says more. `daggers events orders` tells.")).toBe(
      "The tab Log says more. History tells.",
    );
    expect(forPages("Begin anew: `daggers restart orders --from-start` says what is missed.")).toBe(
      "Begin anew: the command line's restart from the start says what is missed.",
    );
    expect(forPages("ends by `daggers account revoke`")).toBe("ends by the command line's account revoke");
  });
  it("leaves what is no command as it was", () => {
    const text = "Names such as `data_stream` and `registered: NAME` stay.";
    expect(forPages(text)).toBe(text);
  });
  it("is one sentence, which ends once", () => {
    expect(["no such file", "It is gone..", "Is it there?", "", "and so on …"].map(sentence)).toEqual([
      "No such file.",
      "It is gone.",
      "Is it there?",
      "",
      "And so on …",
    ]);
  });
});

describe("a finding", () => {
  const told = (message: string, suggestion = ""): string =>
    statement(create(FindingSchema, { message, suggestion }));
  it("does not ask what its suggestion answers", () => {
    expect(told("cluster locl is not registered: did you mean local?", "local")).toBe(
      "cluster locl is not registered.",
    );
    expect(told("there is no topic a: did you mean b?")).toBe("there is no topic a: did you mean b?");
  });
  it("ends once", () => expect(told("It is wrong..")).toBe("It is wrong."));
});
