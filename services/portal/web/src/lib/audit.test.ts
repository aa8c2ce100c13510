import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { AuditKind, CallAuditedSchema } from "../gen/daggers/v1/audit_pb.ts";
import { AuditRecordSchema } from "../gen/daggers/v1/audit_service_pb.ts";
import { Role } from "../gen/daggers/v1/access_pb.ts";
import { WhoAmIResponseSchema } from "../gen/daggers/v1/access_service_pb.ts";
import { asked, caller, KINDS, teamsOf, what } from "./audit.ts";

describe("the audit", () => {
  it("is read by owners of their teams, and by administrators of all", () => {
    const roles = [
      { team: "pricing", role: Role.OWNER },
      { team: "delivery", role: Role.EDITOR },
    ];
    expect(teamsOf(create(WhoAmIResponseSchema, { roles }), ["a"])).toEqual(["pricing"]);
    expect(teamsOf(create(WhoAmIResponseSchema, { administrator: true }), ["a"])).toEqual(["", "a"]);
    expect(teamsOf(null, ["a"])).toEqual([]);
  });

  it("says why a call was refused, for how many calls, and what of what is sensitive was read", () => {
    const refused = { reason: "ROLE_MISSING", detail: "it needs a role", calls: 3n };
    const read = { allowed: true, reason: "ROLE", sensitive: ["bookings.email"] };
    const said = (call: object): string => what(create(AuditRecordSchema, { call }));
    expect(said(refused)).toBe("ROLE_MISSING: it needs a role (3 calls)");
    expect(said(read)).toBe("with bookings.email");
    expect(said({ allowed: true, reason: "ROLE" })).toBe("ROLE");
  });

  it("has the query of a preview as it was written, and takes what was cut", () => {
    const text = JSON.stringify({ name: "a", spec: { sql: "SELECT 1", team: "t" } });
    expect(asked(create(CallAuditedSchema, { asked: text }))).toEqual({
      sql: "SELECT 1",
      rest: JSON.stringify({ name: "a", spec: { team: "t" } }, null, 1),
    });
    expect(asked(create(CallAuditedSchema, { asked: '{"name": …' }))).toEqual({
      sql: "",
      rest: '{"name": …',
    });
    expect(asked(create(CallAuditedSchema))).toEqual({ sql: "", rest: "" });
  });

  it("says where a call without a valid token came from", () => {
    expect(caller(create(CallAuditedSchema, { peer: "10.0.0.1" }))).toBe("no valid token, from 10.0.0.1");
    expect(caller(create(CallAuditedSchema, { principal: "user:ada" }))).toBe("user:ada");
  });

  it("has a word for every kind", () => {
    const kinds = Object.values(AuditKind).filter((each) => typeof each === "number" && each > 0);
    expect(KINDS.map((each) => each[1]).sort()).toEqual(kinds.sort());
  });
});
