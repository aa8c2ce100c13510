import { createConnectTransport } from "@connectrpc/connect-web";

export const once = createConnectTransport({
  baseUrl: "/api",
  useBinaryFormat: true,
  defaultTimeoutMs: 10_000,
});
// Streams have no deadline: who leaves cancels them.
export const open = createConnectTransport({ baseUrl: "/api", useBinaryFormat: true });
