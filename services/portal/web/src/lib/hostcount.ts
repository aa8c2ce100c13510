import { fleet } from "./rpc.ts";

/** How many hosts the log knows. Raises: ConnectError. */
export const countAll = async (): Promise<number> => (await fleet.listHosts({})).hosts.length;
