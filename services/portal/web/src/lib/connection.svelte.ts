/** What a call did not reach, as the portal's bridge names it; of the portal itself nobody says so. */
export type Away = "portal" | "gateway";

/** What all pages know of who answers them. One sentence about it stands above the page, and nowhere else. */
export const connection = $state<{
  /** What does not answer; null while calls are answered. */
  away: Away | null;
  /** Whether the session has ended, which this page was opened with. */
  over: boolean;
  /** What the gateway itself does not hear from: its sentence; empty while it hears all. */
  deaf: string;
  /** When a call was answered last, and when one was with nothing to be said of it; null before the first. */
  answered: number | null;
  heard: number | null;
  /** How often answers have come again: what failed meanwhile is read anew then. */
  back: number;
}>({ away: null, over: false, deaf: "", answered: null, heard: null, back: 0 });

/** A call was answered; `deaf`: what its answer says of what the gateway does not hear from, if it says so at all. */
export function answered(deaf: string | null, now = Date.now()): void {
  if (connection.away || connection.over) connection.back++;
  connection.away = null;
  connection.over = false;
  connection.answered = now;
  if (deaf === null) return;
  connection.deaf = deaf;
  if (!deaf) connection.heard = now;
}

export function lost(what: Away): void {
  connection.away = what;
}

export function ended(): void {
  connection.over = true;
}
