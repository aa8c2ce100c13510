/** How grave a line of a log is. */
export type Level = "error" | "warning" | "";

export interface Line {
  text: string;
  level: Level;
}

/** What the list above a log offers: its title, and the levels that are left. */
export const LEVELS: [string, readonly Level[]][] = [
  ["all lines", ["error", "warning", ""]],
  ["warnings and errors", ["error", "warning"]],
  ["errors", ["error"]],
];

/** The level stands behind the time and, of some programs, a name; a text further on is not its. */
const LEVEL = /^.{0,40}?\b(FATAL|CRITICAL|ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE)\b/;
const GRAVE: Record<string, Level> = { FATAL: "error", CRITICAL: "error", ERROR: "error" };

/**
 * Lines with their levels; one without, as of a stack trace, has that of the line before.
 *
 * before: the level of the line before the first.
 */
export function withLevels(texts: readonly string[], before: Level = ""): Line[] {
  let level = before;
  return texts.map((text) => {
    const found = LEVEL.exec(text)?.[1];
    if (found) level = found.startsWith("WARN") ? "warning" : (GRAVE[found] ?? "");
    return { text, level };
  });
}

/** The lines of some levels that have a text somewhere, whatever its case. */
export function choose(lines: readonly Line[], levels: readonly Level[], text: string): Line[] {
  const wanted = text.toLowerCase();
  return lines.filter(
    (line) => levels.includes(line.level) && (!wanted || line.text.toLowerCase().includes(wanted)),
  );
}
