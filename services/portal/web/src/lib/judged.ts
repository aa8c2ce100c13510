import type { Diagnostic } from "@codemirror/lint";
import { type Finding, Severity } from "../gen/daggers/v1/findings_pb.ts";
import { capital } from "./commands.ts";
import { statement } from "./form.ts";
import { offset } from "./places.ts";

/** Whether nothing was written there yet: that is still to do, and no mistake. */
export const needed = (finding: Finding): boolean =>
  finding.severity !== Severity.WARNING && finding.code === "REQUIRED";
/** Whether it is a mistake. */
export const grave = (finding: Finding): boolean => finding.severity !== Severity.WARNING && !needed(finding);

/** Codes of what is known from records alone: which topics there are, and what their records are. */
const OF_TOPICS = new Set(["TOPIC_MISSING", "MESSAGE_MISMATCH", "RECORDS_MISMATCH", "FIELDS_UNKNOWN"]);
export const ofTopics = (finding: Finding): boolean => OF_TOPICS.has(finding.code);

const FIELDS: Record<string, string> = {
  name: "The name",
  "spec.sql": "The query",
  "spec.streams": "Streams",
  "spec.sinks": "Sinks",
  "spec.cluster": "The cluster",
  "spec.team": "The team",
};
/** What a finding is about, where its own sentence does not say it. */
function subject(field: string): string {
  const [, kind, at, rest] = /^spec\.(stream|sink)s\[(\d+)\]\.?(.*)$/.exec(field) ?? [];
  if (!kind) return FIELDS[field] ?? field;
  return `${capital(kind)} ${Number(at) + 1}${rest ? `: ${rest}` : ""}`;
}
/** One sentence; what may be meant is a button, or else `meant` says it. */
export function sentence(finding: Finding): string {
  const found = statement(finding);
  // What is a sentence of its own needs no subject.
  const about = finding.line > 0 || /^[A-Z0-9]/.test(found) ? "" : `${subject(finding.field)} `;
  return capital(`${about}${found}`.trim());
}
/** What may be meant, where no edit writes it; empty where one does. */
export const meant = (finding: Finding): string =>
  finding.suggestion && !finding.edit ? `Suggestion: ${finding.suggestion}` : "";
/** What the button says that makes the edit of a finding; empty without one. */
export function mending(finding: Finding): string {
  if (!finding.edit) return "";
  const text = finding.suggestion || finding.edit.text;
  return text.trim() ? `Write ${text.trim()}` : "Take it out";
}

export interface Change {
  from: number;
  to: number;
  insert: string;
}

/** The edit that a finding suggests, in the editor's units; null where only a person can do it. */
export function change(text: string, finding: Finding): Change | null {
  const edit = finding.edit;
  if (!edit) return null;
  const from = offset(text, edit.line, edit.column);
  return { from, to: Math.max(from, offset(text, edit.endLine, edit.endColumn)), insert: edit.text };
}

/** Findings about a place of the query, as the editor shows them; the others are told beside it. */
export function diagnostics(text: string, findings: Finding[]): Diagnostic[] {
  return findings
    .filter((each) => each.line > 0)
    .map((each) => {
      const from = offset(text, each.line, each.column);
      const edit = change(text, each);
      return {
        from,
        to: Math.max(from, offset(text, each.endLine, each.endColumn)),
        severity: grave(each) ? "error" : "warning",
        source: each.code,
        message: sentence(each),
        actions: edit
          ? [
              {
                name: mending(each),
                apply: (view) => {
                  // Who has typed since gets a new one at once; this one's place is another text's.
                  if (view.state.doc.toString() === text) view.dispatch({ changes: edit });
                },
              },
            ]
          : [],
      };
    });
}

/** "Ready to run", "1 error, 2 warnings", "2 things still to say". */
export function summary(findings: Finding[]): string {
  const errors = findings.filter(grave).length;
  const told = (many: number, what: string): string => `${many} ${what}${many === 1 ? "" : "s"}`;
  const open = findings.filter(needed).length;
  const warnings = findings.length - errors - open;
  if (!findings.length) return "Ready to run";
  return [
    errors && told(errors, "error"),
    open && `${told(open, "thing")} still to say`,
    warnings && told(warnings, "warning"),
  ]
    .filter(Boolean)
    .join(", ");
}
