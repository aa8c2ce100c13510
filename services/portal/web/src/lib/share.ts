import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { base64Decode, base64Encode } from "@bufbuild/protobuf/wire";
import { DaggerSpecSchema } from "../gen/daggers/v1/spec_pb.ts";
import type { Draft } from "./draft.ts";

const MARK = "#draft=";

/** What stands behind the # of an address that has a draft: no server is sent it, so no log has the query. */
export function shared(draft: Draft): string {
  const said = new URLSearchParams({
    name: draft.name,
    message: draft.message,
    spec: base64Encode(toBinary(DaggerSpecSchema, draft.spec), "url"),
  });
  return `${MARK}${encodeURIComponent(said.toString())}`;
}

/** The draft of an address; null when it has none, or nothing that can be read. */
export function received(hash: string): Draft | null {
  if (!hash.startsWith(MARK)) return null;
  try {
    const said = new URLSearchParams(decodeURIComponent(hash.slice(MARK.length)));
    const spec = fromBinary(DaggerSpecSchema, base64Decode(said.get("spec") ?? ""));
    return { name: said.get("name") ?? "", message: said.get("message") ?? "", spec };
  } catch {
    return null; // of another version of these pages, or cut by who passed it on
  }
}
