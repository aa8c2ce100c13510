import { ConnectError } from "@connectrpc/connect";
import { forPages } from "./commands.ts";
import { type Finding, FindingsSchema } from "../gen/daggers/v1/findings_pb.ts";

/** One field of a form: a part of a message, as a text. */
export interface Field<M> {
  /** Its path in the request, as findings name it. */
  path: string;
  title: string;
  /** What it may look like; of a choice, what no choice is called. */
  hint?: string;
  /** A sentence about it, below. */
  help?: string;
  /** What may be chosen: value and title. Any text without it. */
  options?: [string, string][];
  get: (message: M) => string;
  put: (message: M, text: string) => M;
}

/** What a refusal says of the parts of a request; nothing where it is about something else. */
export const findings = (error: unknown): Finding[] =>
  ConnectError.from(error)
    .findDetails(FindingsSchema)
    .flatMap((each) => each.findings);

const MEANT = /(: | )?did you mean [^?]+\?$/i;
/** What was found, in one sentence that ends once: what to write instead stands beside it. */
export const statement = (finding: Finding): string =>
  ended(forPages(finding.suggestion ? finding.message.replace(MEANT, "") : finding.message));
const ended = (text: string): string => (/[?!…]$/.test(text) ? text : `${text.replace(/[. ]+$/, "")}.`);

/** Whether a path is this one, or of a part of it. */
export const within = (field: string, path: string): boolean =>
  field === path || field.startsWith(`${path}.`) || field.startsWith(`${path}[`);
/** What was found about a field or a part of it, in words. */
export const at = (found: Finding[], path: string): string =>
  found
    .filter((each) => within(each.field, path))
    .map(statement)
    .join(" ");
/** What was found about what has no field here. */
export const elsewhere = (found: Finding[], fields: { path: string }[]): Finding[] =>
  found.filter((each) => !fields.some(({ path }) => within(each.field, path)));

/** Names that are separated by commas or spaces. */
export const names = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);
export const listed = (values: string[]): string => values.join(", ");
