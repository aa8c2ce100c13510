import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { type QuotaUse, QuotaUseSchema } from "../gen/daggers/v1/access_service_pb.ts";
import { bounds, full, standing, title } from "./usage.ts";

const use = (used: number, quota?: { soft?: bigint; hard?: bigint }): QuotaUse =>
  create(QuotaUseSchema, { name: "memory_mib", used, ...(quota ? { quota } : {}) });

describe("the use of a quota", () => {
  it("has a name, also one of a later platform", () => {
    expect(title(use(1))).toBe("Memory reserved, MiB");
    expect(title(create(QuotaUseSchema, { name: "cold_bytes" }))).toBe("cold bytes");
  });
  it("is without a bound, within, warned of, used up", () => {
    expect(standing(use(9))).toBe("idle");
    expect(standing(use(9, { soft: 9n, hard: 12n }))).toBe("good");
    expect(standing(use(10, { soft: 9n, hard: 12n }))).toBe("warn");
    expect(standing(use(12, { soft: 9n, hard: 12n }))).toBe("bad");
    expect(standing(use(0, { hard: 0n }))).toBe("bad");
  });
  it("says its bounds, and which a bar ends at", () => {
    expect(bounds(use(1, { soft: 8_000n, hard: 10_000n }))).toBe("warns above 8,000, at most 10,000");
    expect(bounds(use(1))).toBe("");
    expect([full(use(1)), full(use(1, { soft: 8n })), full(use(1, { soft: 8n, hard: 10n }))]).toEqual([
      null,
      8,
      10,
    ]);
  });
});
