export interface Line {
  kind: "same" | "gone" | "come";
  text: string;
}
const split = (text: string): string[] => (text ? text.replace(/\n$/, "").split("\n") : []);

/** Two texts line by line: the longest lines that both have in order stay, the others go or come. */
export function lines(before: string, after: string): Line[] {
  const old = split(before);
  const fresh = split(after);
  // length[i][j]: of the longest common part of what is behind i and j
  const length = Array.from({ length: old.length + 1 }, () => new Uint16Array(fresh.length + 1));
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = fresh.length - 1; j >= 0; j--)
      length[i]![j] =
        old[i] === fresh[j] ? length[i + 1]![j + 1]! + 1 : Math.max(length[i + 1]![j]!, length[i]![j + 1]!);
  const told: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < fresh.length) {
    if (i < old.length && j < fresh.length && old[i] === fresh[j]) {
      told.push({ kind: "same", text: old[i++]! });
      j++;
    } else if (j >= fresh.length || (i < old.length && length[i + 1]![j]! >= length[i]![j + 1]!))
      told.push({ kind: "gone", text: old[i++]! });
    else told.push({ kind: "come", text: fresh[j++]! });
  }
  return told;
}
