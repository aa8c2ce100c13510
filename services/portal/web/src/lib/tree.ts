import { createFileRegistry, type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import type { FileDescriptorSet } from "@bufbuild/protobuf/wkt";

/** A field of a message, as a person reads it; `message` is what may be unfolded below it. */
export interface Branch {
  name: string;
  number: number;
  type: string;
  message?: DescMessage;
  /** Names of an enum's values, in their order. */
  values: string[];
}

/** The message of this name among files that were registered; undefined where it is not there. */
export const rooted = (files: FileDescriptorSet, name: string): DescMessage | undefined =>
  createFileRegistry(files).getMessage(name);

const short = (name: string): string => name.slice(name.lastIndexOf(".") + 1);
const scalar = (of: ScalarType): string => ScalarType[of].toLowerCase();

function one(field: DescField): Pick<Branch, "type" | "message" | "values"> {
  const { message, enum: enumeration } = field;
  if (message) {
    const own = !message.typeName.startsWith("google.protobuf.");
    return { type: short(message.typeName), values: [], ...(own ? { message } : {}) };
  }
  if (enumeration)
    return { type: short(enumeration.typeName), values: enumeration.values.map((each) => each.name) };
  return { type: field.scalar === undefined ? "" : scalar(field.scalar), values: [] };
}

/** The fields of a message, in the order of its file. */
export const branches = (message: DescMessage): Branch[] =>
  message.fields.map((field) => {
    const told = one(field);
    const keyed = field.fieldKind === "map" ? `map<${scalar(field.mapKey)}, ${told.type}>` : told.type;
    const type = field.fieldKind === "list" ? `repeated ${told.type}` : keyed;
    return { name: field.name, number: field.number, ...told, type };
  });
