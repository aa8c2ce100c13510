import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { SqlFunction, StreamColumn } from "../gen/daggers/v1/catalog_service_pb.ts";

/** A table of a query and what can be read of it. */
export interface Table {
  name: string;
  columns: StreamColumn[];
}

/** What may be written: tables, their columns and the fields in those, functions; with type and comment. */
export function options(tables: Table[], functions: SqlFunction[] = []): Completion[] {
  const found = new Map<string, Completion>();
  for (const table of tables) {
    const quoted = `\`${table.name}\``;
    found.set(quoted, { label: quoted, type: "type", detail: "table" });
    for (const column of table.columns)
      if (!found.has(column.path))
        found.set(column.path, {
          label: column.path,
          type: "property",
          detail: column.type,
          ...(column.comment ? { info: column.comment } : {}),
          boost: 1,
        });
  }
  for (const each of functions)
    found.set(each.name.toUpperCase(), {
      label: each.name,
      apply: `${each.name}(`,
      type: "function",
      detail: each.usage.slice(each.name.length),
      ...(each.about ? { info: each.about } : {}),
    });
  return [...found.values()];
}

/** Values of the enum that a text is compared with, where the cursor stands in that text. */
export function values(tables: Table[], before: string): { back: number; options: Completion[] } | null {
  const found = /([\w.[\]']+)\s*(?:=|<>|!=|IN\s*\((?:\s*'[^']*'\s*,)*)\s*'(\w*)$/i.exec(before);
  if (!found) return null;
  const column = tables.flatMap((each) => each.columns).find((each) => each.path === found[1]);
  if (!column?.enumValues.length) return null;
  const back = found[2]!.length;
  return { back, options: column.enumValues.map((each) => ({ label: each.name, type: "enum" })) };
}

/** The source that an editor asks. */
export const source =
  (tables: () => Table[], functions: () => SqlFunction[]) =>
  (context: CompletionContext): CompletionResult | null => {
    const line = context.state.doc.lineAt(context.pos);
    const enums = values(tables(), line.text.slice(0, context.pos - line.from));
    if (enums) return { from: context.pos - enums.back, options: enums.options };
    const word = context.matchBefore(/[`\w][\w.[\]'`]*/);
    if (!word && !context.explicit) return null;
    return {
      from: word?.from ?? context.pos,
      options: options(tables(), functions()),
      validFor: /^[`\w.[\]']*$/,
    };
  };
