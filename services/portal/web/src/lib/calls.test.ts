import { describe, expect, it } from "vitest";

/** What the portal answers next, byte for byte as its bridge does: services/portal/tests/test_portal_bridge.py. */
let answer: () => Promise<Response>;
const said = (body: BodyInit, status: number, headers: Record<string, string>): void => {
  answer = () => Promise.resolve(new Response(body, { status, headers }));
};
const JSON_ = { "content-type": "application/json" };
const UNARY = { "content-type": "application/proto" };
const GONE = { code: "unavailable", message: "The gateway does not answer." };
const EVERYWHERE = { kind: "away", text: GONE.message, everywhere: true };

async function modules() {
  const [{ connection }, { problem }, calls] = await Promise.all([
    import("./connection.svelte.ts"),
    import("./problem.ts"),
    import("./rpc.ts"),
  ]);
  const why = (call: Promise<unknown>): Promise<unknown> => call.then(() => null, problem);
  return { connection, why, ...calls };
}
const none = { getItem: () => null } as unknown as Storage;
Object.assign(globalThis, { localStorage: none, fetch: () => answer() });
const at = await modules();

describe("what a call tells the connection", () => {
  it("is what the gateway does not hear from", async () => {
    said("", 200, { ...UNARY, "trailer-x-daggers-degraded": "Kafka does not answer" });
    await at.access.whoAmI({});
    expect([at.connection.deaf, at.connection.away]).toEqual(["Kafka does not answer", null]);
  });
  it("is that no gateway answers, of one answer and of a stream, until one does", async () => {
    const { back } = at.connection;
    said(JSON.stringify(GONE), 503, { ...JSON_, "x-daggers-away": "gateway" });
    expect(await at.why(at.access.whoAmI({}))).toEqual(EVERYWHERE);
    expect(at.connection.away).toBe("gateway");
    said("", 200, UNARY);
    await at.access.whoAmI({});
    expect([at.connection.away, at.connection.back, at.connection.deaf]).toEqual([null, back + 1, ""]);
    const end = JSON.stringify({ error: GONE, metadata: { "x-daggers-away": ["gateway"] } });
    const envelope = new Uint8Array([2, 0, 0, 0, end.length, ...new TextEncoder().encode(end)]);
    said(envelope, 200, { "content-type": "application/connect+proto" });
    const steps = async (): Promise<void> => {
      for await (const step of at.streams.watchVitals({})) void step;
    };
    expect(await at.why(steps())).toEqual(EVERYWHERE);
    expect(at.connection.away).toBe("gateway");
  });
  it("is that the portal itself does not", async () => {
    answer = () => Promise.reject(new TypeError("fetch failed"));
    expect(await at.why(at.daggers.listDaggers({}))).toEqual({
      ...EVERYWHERE,
      text: "The portal does not answer.",
    });
    expect(at.connection.away).toBe("portal");
  });
  it("is that the session has ended", async () => {
    said(JSON.stringify({ code: "unauthenticated", message: "log in again" }), 401, JSON_);
    expect(await at.why(at.access.whoAmI({}))).toMatchObject({ kind: "login", everywhere: true });
    expect(at.connection.over).toBe(true);
  });
  it("is nothing of the kind for a refusal, which is an answer", async () => {
    said(JSON.stringify({ code: "permission_denied", message: "not yours" }), 403, JSON_);
    expect(await at.why(at.access.whoAmI({}))).toEqual({ kind: "refused", text: "Not yours." });
    expect([at.connection.away, at.connection.over]).toEqual([null, false]);
  });
});
