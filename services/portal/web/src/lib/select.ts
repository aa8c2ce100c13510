/** What a text of SQL is made of, where only its shape counts: texts and comments are one token each. */
const TOKENS = /--[^\n]*|\/\*[^]*?\*\/|'(?:[^']|'')*'|`[^`]*`|"[^"]*"|[\p{L}_][\p{L}\p{N}_]*|[^\s]/gu;
const ENDS = new Set(["from", "where", "group", "having", "union", "order", "limit", "intersect", "except"]);

const bare = (token: string): string => token.replace(/^[`"]|[`"]$/g, "");

/** The names of the columns that a query answers, in order and in lower case; those without a name are left out. */
export function selected(sql: string): string[] {
  const names: string[] = [];
  let depth = 0;
  let inside = false;
  let last = "";
  for (const [token] of sql.matchAll(TOKENS)) {
    if (token.startsWith("--") || token.startsWith("/*")) continue;
    const word = token.toLowerCase();
    if ("([".includes(token)) depth++;
    else if (")]".includes(token)) depth--;
    if (depth) continue;
    if (!inside) inside = word === "select";
    else if (token === "," || ENDS.has(word)) {
      if (/^[\p{L}_`"]/u.test(last)) names.push(bare(last).toLowerCase());
      if (token !== ",") return names;
      last = "";
    } else last = token;
  }
  if (/^[\p{L}_`"]/u.test(last)) names.push(bare(last).toLowerCase());
  return names;
}
