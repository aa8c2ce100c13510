import { Role } from "../gen/daggers/v1/access_pb.ts";
import type { WhoAmIResponse } from "../gen/daggers/v1/access_service_pb.ts";
import { access } from "./rpc.ts";

export { problem } from "./problem.ts";

/** As what the gateway knows us. Raises: ConnectError. */
export const ask = (): Promise<WhoAmIResponse> => access.whoAmI({});

const ROLES: Record<Role, string> = {
  [Role.UNSPECIFIED]: "",
  [Role.VIEWER]: "viewer",
  [Role.EDITOR]: "editor",
  [Role.OWNER]: "owner",
  [Role.ADMINISTRATOR]: "administrator",
};
/** The roles that a team has. */
export const OF_TEAMS = [Role.VIEWER, Role.EDITOR, Role.OWNER];
/** What somebody in a team may be: a person, all of a group, a program. */
export const PRINCIPALS = ["user", "group", "account"];
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
/** Whether somebody is an owner of a team; without one, of any: who registers sinks is. */
export const owns = (who: WhoAmIResponse | null, team?: string): boolean =>
  who?.administrator ||
  who?.roles.some((each) => (team === undefined || each.team === team) && each.role >= Role.OWNER) ||
  false;
/**
 * Whether somebody may change daggers of a team, on a playground or elsewhere. The page hides what would be refused;
 * the gateway decides.
 */
export const edits = (who: WhoAmIResponse | null, team: string, playground = false): boolean => {
  const least = playground ? Role.VIEWER : Role.EDITOR;
  return who?.administrator || who?.roles.some((each) => each.team === team && each.role >= least) || false;
};
/** Whether somebody is an editor of any team. */
export const editsAny = (who: WhoAmIResponse | null): boolean =>
  who?.administrator || who?.roles.some((each) => each.role >= Role.EDITOR) || false;
