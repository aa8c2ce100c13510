import { Role } from "../gen/daggers/v1/access_pb.ts";
import type { WhoAmIResponse } from "../gen/daggers/v1/access_service_pb.ts";
import { type Problem, problem } from "./problem.ts";
import { access } from "./rpc.ts";

export interface Me {
  name: string | null;
  asked: "provider" | "key" | "none";
  version: string;
}

/** Who is logged in, and as what the gateway knows them. */
export const session = $state<{ me: Me | null; who: WhoAmIResponse | null; trouble: Problem | null }>({
  me: null,
  who: null,
  trouble: null,
});

/** Ask who we are; without a login, go and get one. */
export async function enter(): Promise<void> {
  try {
    const answer = await fetch("/auth/me");
    session.me = (await answer.json()) as Me;
    if (session.me.name === null) return logIn(session.me.asked);
    session.who = await access.whoAmI({});
    session.trouble = null;
  } catch (error) {
    session.trouble = problem(error);
  }
}

function logIn(asked: Me["asked"]): void {
  if (asked === "provider")
    location.assign(`/auth/login?to=${encodeURIComponent(location.pathname + location.search)}`);
  else
    session.trouble = {
      kind: "login",
      text: "Open the address that `daggers local status` prints: it has the key.",
    };
}

/** End the session here and at the portal. */
export async function leave(): Promise<void> {
  await fetch("/auth/logout", { method: "POST" });
  location.assign("/");
}

const ROLES: Record<Role, string> = {
  [Role.UNSPECIFIED]: "",
  [Role.VIEWER]: "viewer",
  [Role.EDITOR]: "editor",
  [Role.OWNER]: "owner",
  [Role.ADMINISTRATOR]: "administrator",
};
export const roleName = (role: Role): string => ROLES[role] ?? "";

/** pricing · editor: for the corner of the menu. */
export function rights(who: WhoAmIResponse | null): string {
  if (who === null) return "";
  if (who.administrator) return "administrator";
  const first = who.roles[0];
  if (first === undefined) return "in no team";
  const more = who.roles.length > 1 ? ` and ${who.roles.length - 1} more` : "";
  return `${first.team} · ${roleName(first.role)}${more}`;
}
/** Whether somebody may change daggers of a team. The page hides what would be refused; the gateway decides. */
export const edits = (who: WhoAmIResponse | null, team: string): boolean =>
  who?.administrator || who?.roles.some((each) => each.team === team && each.role >= Role.EDITOR) || false;
