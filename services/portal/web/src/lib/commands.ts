/** What a page has in the place of a command, as a noun, by how the command begins; the longest stands first. */
const PLACES: readonly [string, string][] = [
  ["alerts unsilence", "the page Silences"],
  ["alerts silences", "the page Silences"],
  ["alerts silence", "the page New silence"],
  ["alerts test", "the tab Rules"],
  ["quarantine list", "the tab Quarantine"],
  ["reference list", "the page Reference tables"],
  ["stream discover", "the page New stream"],
  ["stream register", "the page New stream"],
  ["stream list", "the page Streams"],
  ["team usage", "the page of the team"],
  ["alerts list", "the page Alerts"],
  ["sink apply", "the page Sinks"],
  ["sink list", "the page Sinks"],
  ["validate", "the page Edit"],
  ["rollback", "the tab Revisions"],
  ["restart", "the button Restart"],
  ["events", "History"],
  ["apply", "the button Edit"],
  ["audit", "the page Audit"],
  ["start", "the button Start"],
  ["stop", "the button Stop"],
  ["logs", "the tab Log"],
  ["list", "the page Daggers"],
  ["rows", "the tab Live"],
  ["get", "the head of its page"],
];
const COMMAND = /`daggers ([^`]+)`/g;

function place(command: string): string {
  // The pages restart a dagger where it was; anew it begins by the command line alone.
  if (command.includes("--from-start")) return "the command line's restart from the start";
  const found = PLACES.find(([begins]) => `${command} `.startsWith(`${begins} `));
  return found?.[1] ?? `the command line's ${command.split(" ").slice(0, 2).join(" ")}`;
}

/** A text of the gateway for a page: the button or the tab in the place of each command in backticks. */
export const forPages = (text: string): string =>
  text.replaceAll(COMMAND, (_, command: string, at: number) => {
    const noun = place(command);
    const begins = /(^|[.!?]\s+)$/.test(text.slice(0, at));
    return begins ? noun[0]!.toUpperCase() + noun.slice(1) : noun;
  });

/** A word of prose; names, as in `user:bob` and `completed_bookings`, stay as they are. */
const PROSE = /^[a-z]+(?=[ ,.]|: )/;
/** With a capital, where a word of prose begins it. */
export const capital = (text: string): string =>
  PROSE.test(text) ? text[0]!.toUpperCase() + text.slice(1) : text;
/** As the one sentence that it is: it begins with a capital, and ends with one full stop or question mark. */
export function sentence(text: string): string {
  const whole = forPages(text.trim());
  if (!whole) return "";
  return capital(/[.?!…:]$/.test(whole) ? whole.replace(/\.+$/, ".") : `${whole}.`);
}
