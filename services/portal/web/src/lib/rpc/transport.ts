import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { answered, ended, lost } from "../connection.svelte.ts";
import { unreached } from "../problem.ts";
import { ours } from "../second.ts";

/** Beside an answer: why it may be behind the truth. */
const DEGRADED = "x-daggers-degraded";
/** Ends of calls that say nothing of whether they were answered. */
const UNANSWERED = [Code.Canceled, Code.DeadlineExceeded, Code.Unavailable, Code.Unknown];

const shown: Interceptor = (next) => (request) => {
  for (const [name, value] of Object.entries(ours())) request.header.set(name, value);
  return next(request);
};

function failed(error: unknown): void {
  const what = unreached(error);
  const { code } = ConnectError.from(error);
  if (what) lost(what);
  else if (code === Code.Unauthenticated) ended();
  else if (!UNANSWERED.includes(code)) answered(null);
}
async function* noted<Step>(steps: AsyncIterable<Step>): AsyncIterable<Step> {
  try {
    yield* steps;
  } catch (error) {
    failed(error);
    throw error;
  }
}
/** Tells the connection how each call went: one sentence about it stands above all pages. */
const told: Interceptor = (next) => async (request) => {
  try {
    const answer = await next(request);
    if (answer.stream) return { ...answer, message: noted(answer.message) };
    // Of what it did not look at among quarantined records it says so there.
    const own = request.service.typeName.endsWith("QuarantineService");
    answered(own ? null : (answer.trailer.get(DEGRADED) ?? ""));
    return answer;
  } catch (error) {
    failed(error);
    throw error;
  }
};

export const once = createConnectTransport({
  baseUrl: "/api",
  useBinaryFormat: true,
  interceptors: [told, shown],
  defaultTimeoutMs: 10_000,
});
// Streams have no deadline: who leaves cancels them.
export const open = createConnectTransport({
  baseUrl: "/api",
  useBinaryFormat: true,
  interceptors: [told, shown],
});
