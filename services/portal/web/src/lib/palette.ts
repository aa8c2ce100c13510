/** Where the palette leads: a page, or a thing that has one. */
export interface Place {
  href: string;
  name: string;
  /** What it is, for example dagger. */
  kind: string;
}

/** How many are offered at once. */
export const MOST = 12;

/** Those whose name or kind has each of the words, those that begin with the first word before all others. */
export function found(places: readonly Place[], text: string): Place[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const of = ({ name, kind }: Place): string => `${name} ${kind}`.toLowerCase();
  const begins = (place: Place): boolean => place.name.toLowerCase().startsWith(words[0] ?? "");
  const those = places.filter((place) => words.every((word) => of(place).includes(word)));
  return [...those.filter(begins), ...those.filter((place) => !begins(place))].slice(0, MOST);
}
