/**
 * The second secret of a session that was begun by a key. A cookie goes to every port of a machine; this is kept for
 * our origin, which has a port, and sent with each call. It came behind the # of the address that let us in.
 */
const NAME = "call";
const HEADER = "x-daggers-call";

/** Keep what the address has, and take it out of there. */
export function keep(place: Location = location): void {
  const said = new URLSearchParams(place.hash.slice(1)).get(NAME);
  if (!said) return;
  localStorage.setItem(NAME, said);
  history.replaceState(null, "", place.pathname + place.search);
}

/** The headers that say we are who we are. */
export function ours(): Record<string, string> {
  const kept = localStorage.getItem(NAME);
  return kept ? { [HEADER]: kept } : {};
}
