import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { ExplainedRouteSchema, ExplainRouteResponseSchema } from "../gen/daggers/v1/alert_service_pb.ts";
import { AlertRouteSchema } from "../gen/daggers/v1/alerts_pb.ts";
import { condition, explained, labelsOf, others, settings } from "./routes.ts";

describe("a route in words", () => {
  it("says what it says itself, and nothing that its parent has", () => {
    const route = create(AlertRouteSchema, {
      match: ["severity=critical", "rule!=api_*"],
      receivers: ["pagerduty", "slack"],
      escalation: { after: durationFromMs(900_000), receivers: ["email"] },
      repeatInterval: durationFromMs(0),
      continues: true,
    });
    expect(condition(route)).toBe("severity=critical and rule!=api_*");
    expect(settings(route)).toEqual([
      "notifies pagerduty, slack",
      "never repeated",
      "email after 15 min without acknowledgement",
      "routes behind it are asked, too",
    ]);
  });
  it("tells what is switched off from what is not said", () => {
    const route = create(AlertRouteSchema, { groupBy: {}, windows: {}, escalation: {} });
    expect(condition(route)).toBe("every alert");
    expect(settings(route)).toEqual(["one message of all", "always", "no escalation"]);
    expect(settings(create(AlertRouteSchema))).toEqual([]);
  });
});

describe("who would be notified", () => {
  it("asks by the labels that were filled in", () =>
    expect(labelsOf({ dagger: "a", condition: "", severity: "critical", rule: " x " })).toEqual({
      severity: "critical",
      rule: "x",
    }));
  it("is said with the reason, the group and the times", () => {
    const route = create(ExplainedRouteSchema, {
      destination: {
        receivers: ["pricing/slack"],
        why: ["severity=critical"],
        repeatInterval: durationFromMs(4 * 3_600_000),
      },
      group: { dagger: "a", rule: "" },
      firstNotice: timestampFromMs(0),
    });
    const said = Object.fromEntries(explained(route));
    expect(said["Because"]).toBe("severity=critical");
    expect(said["Group"]).toBe("dagger = a, rule = none");
    expect(said["Repeated"]).toBe("every 4 h");
    expect(said["Escalated"]).toBe("to nobody");
    expect(Object.fromEntries(explained(create(ExplainedRouteSchema)))["First"]).toBe("in no window");
  });
  it("is the team, or the platform where no route names anybody", () => {
    const of = (more: object) => others(create(ExplainRouteResponseSchema, { team: "pricing", ...more }));
    expect(of({ receivers: ["pricing/slack"] })).toBe(
      "pricing has no routes: pricing/slack is notified at once.",
    );
    expect(of({ platform: true })).toBe("No receiver of pricing is notified; the platform's are, at once.");
  });
});
