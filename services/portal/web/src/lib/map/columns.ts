import { OutputColumn_Cell } from "../../gen/daggers/v1/findings_pb.ts";
import type { DaggerSpec } from "../../gen/daggers/v1/spec_pb.ts";
import { daggers } from "../rpc.ts";
import { type Kind, kindOf } from "./cells.ts";
import type { Texts } from "./windows.ts";

export type Stated = Record<string, "s2" | "geohash">;

/** What the query's functions say of its columns; nothing without an answer: then their names do. */
export async function stated(spec: DaggerSpec, signal: AbortSignal): Promise<Stated> {
  try {
    const { columns } = await daggers.validate({ spec }, { signal });
    const named = columns.filter((each) => each.cell !== OutputColumn_Cell.UNSPECIFIED);
    return Object.fromEntries(
      named.map((each) => [each.key, each.cell === OutputColumn_Cell.S2 ? "s2" : "geohash"]),
    );
  } catch {
    return {};
  }
}

/** The columns that name cells, those first of which the query says so, and how each does. */
export function naming(columns: ReadonlyMap<string, Texts>, said: Stated): Map<string, Kind> {
  const found: [string, Kind][] = [];
  for (const [name, texts] of columns) {
    const kind = kindOf(name, texts.all, said[name]);
    if (kind) found.push([name, kind]);
  }
  return new Map(found.sort(([one], [other]) => Number(other in said) - Number(one in said)));
}
