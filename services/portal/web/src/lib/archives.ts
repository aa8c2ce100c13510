import type { Dagger } from "../gen/daggers/v1/dagger_pb.ts";
import type { ParquetSink, Sink } from "../gen/daggers/v1/spec_pb.ts";

/** A table in cold storage, as a dagger writes it. */
export interface Archive {
  dagger: Dagger;
  /** Its sink: the own name, else the one that the gateway knows it by. */
  sink: string;
  table: string;
  path: string;
  streams: string[];
}

/** What the tables of all daggers are: by stream, then by dagger. */
export function archives(daggers: Dagger[]): Archive[] {
  const found = daggers.flatMap((dagger) =>
    (dagger.spec?.sinks ?? []).flatMap((sink) => {
      const parquet = sink.kind.case === "parquet" ? sink.kind.value : null;
      return parquet ? [archive(dagger, sink, parquet)] : [];
    }),
  );
  const key = (one: Archive): string => `${one.streams.join()} ${one.dagger.name} ${one.sink}`;
  return found.sort((a, b) => key(a).localeCompare(key(b)));
}

function archive(dagger: Dagger, sink: Sink, parquet: ParquetSink): Archive {
  const table = parquet.table || dagger.name;
  const streams = [...new Set(dagger.spec!.streams.map((each) => each.stream))].sort();
  const path = parquet.location ? `${parquet.location}/${table}` : `${sink.registered}: ${table}`;
  return { dagger, sink: sink.name, table, path, streams };
}

/** Where a notebook on a table is opened; null where nothing says so. */
export function notebook(
  address: string | null | undefined,
  { path, table }: Pick<Archive, "path" | "table">,
) {
  if (!address) return null;
  return address
    .replaceAll("{path}", encodeURIComponent(path))
    .replaceAll("{table}", encodeURIComponent(table));
}
