// A module for each service: a screen loads the messages of those that it calls, since package.json says that
// these modules do nothing when they are only named.
export { access } from "./rpc/access.ts";
export { alerts } from "./rpc/alerts.ts";
export { audit } from "./rpc/audit.ts";
export { catalog, samples } from "./rpc/catalog.ts";
export { daggers, streams } from "./rpc/daggers.ts";
export { fleet } from "./rpc/fleet.ts";
export { quarantine } from "./rpc/quarantine.ts";
export { sinks } from "./rpc/sinks.ts";
