// What this page wrote is on the list that it reads next, whichever gateway answers.
let newest = 0n;

/** Remember how far the log of alerts was when something was written there. */
export function note(answer: { sequence: bigint }): void {
  if (answer.sequence > newest) newest = answer.sequence;
}

/** The sequence of the log of alerts that has all that this page wrote. */
export const written = (): bigint => newest;
