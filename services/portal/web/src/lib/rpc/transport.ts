import type { Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { ours } from "../second.ts";

const shown: Interceptor = (next) => (request) => {
  for (const [name, value] of Object.entries(ours())) request.header.set(name, value);
  return next(request);
};

export const once = createConnectTransport({
  baseUrl: "/api",
  useBinaryFormat: true,
  interceptors: [shown],
  defaultTimeoutMs: 10_000,
});
// Streams have no deadline: who leaves cancels them.
export const open = createConnectTransport({ baseUrl: "/api", useBinaryFormat: true, interceptors: [shown] });
