import type { WhoAmIResponse } from "../gen/daggers/v1/access_service_pb.ts";
import type { Problem } from "./problem.ts";
import { ours } from "./second.ts";

export interface Me {
  name: string | null;
  asked: "provider" | "key" | "none";
  version: string;
  /** Where a notebook on a table is opened, with {path} and {table}; null for nowhere. */
  notebook: string | null;
  /** Base URL of Grafana; null where there is none. */
  grafana: string | null;
}

/** Who is logged in, and as what the gateway knows them. */
export const session = $state<{
  me: Me | null;
  who: WhoAmIResponse | null;
  /** What somebody may do, in a few words. */
  rights: string;
  /** How many hosts there are, for administrators; 0 for all others, and until that is known. */
  hosts: number;
  trouble: Problem | null;
}>({ me: null, who: null, rights: "", hosts: 0, trouble: null });

// Kept until somebody asks for a login: a provider lets in who was let in before, so a reload would undo it.
const OUT = "logged-out";

/** Ask who we are; without a login, go and get one, unless somebody has logged out. */
export async function enter(): Promise<void> {
  try {
    // Calls come as a module of their own: the frame of the page is drawn without them.
    const [answer, calls] = await Promise.all([fetch("/auth/me", { headers: ours() }), import("./who.ts")]);
    session.me = (await answer.json()) as Me;
    if (session.me.name === null) return localStorage.getItem(OUT) ? out() : ask(session.me.asked);
    localStorage.removeItem(OUT);
    try {
      session.who = await calls.ask();
      session.rights = calls.rights(session.who);
      session.trouble = null;
      if (session.who.administrator) void countHosts();
    } catch (error) {
      session.trouble = calls.problem(error);
    }
  } catch {
    session.trouble = { kind: "away", text: "The portal does not answer.", everywhere: true };
  }
}

/** Count the hosts: whoever has one sees nothing of hosts. */
async function countHosts(): Promise<void> {
  const { countAll } = await import("./hostcount.ts");
  session.hosts = await countAll().catch(() => 0);
}

function ask(asked: Me["asked"]): void {
  if (asked === "provider")
    location.assign(`/auth/login?to=${encodeURIComponent(location.pathname + location.search)}`);
  else
    session.trouble = {
      kind: "login",
      text: "Open the address that the local stack says when it has come up, or in its status: it is good once.",
    };
}

/** Ask again who we are: whether anybody answers shows with each call. What failed at first is begun anew. */
export async function renew(): Promise<void> {
  if (session.trouble?.kind === "away") return enter();
  if (session.trouble || !session.who) return;
  const calls = await import("./who.ts");
  await calls.ask().catch(() => undefined); // said above the page
}

/** Log in after somebody has logged out. */
export function logIn(): Promise<void> {
  localStorage.removeItem(OUT);
  return enter();
}

/** End the session here and at the portal. Nobody is sent to the provider then, which would let them in again. */
export async function leave(): Promise<void> {
  await fetch("/auth/logout", { method: "POST", headers: ours() });
  localStorage.setItem(OUT, "yes");
  out();
}

function out(): void {
  session.me = session.who = null;
  session.rights = "";
  session.hosts = 0;
  session.trouble = { kind: "login", text: "You are logged out of these pages." };
}
