import type { Diagnostic } from "@codemirror/lint";
import { type Finding, Severity } from "../gen/daggers/v1/findings_pb.ts";
import { statement } from "./form.ts";
import { offset } from "./places.ts";

export const grave = (finding: Finding): boolean => finding.severity !== Severity.WARNING;

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
        message: statement(each),
        actions: edit
          ? [
              {
                name: `Write ${each.suggestion || edit.insert}`,
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

/** "No errors", "1 error, 2 warnings". */
export function summary(findings: Finding[]): string {
  const errors = findings.filter(grave).length;
  const told = (many: number, what: string): string => `${many} ${what}${many === 1 ? "" : "s"}`;
  const warnings = findings.length - errors;
  if (!findings.length) return "Ready to run";
  return [errors && told(errors, "error"), warnings && told(warnings, "warning")].filter(Boolean).join(", ");
}
