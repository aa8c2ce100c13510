/** What the words of stream processing mean here, for who meets them first: a sentence or two each. */
export const TERMS = {
  watermark:
    "How far event time has come: records older than this are not waited for any more, and windows that end before it are closed.",
  window: "The span of event time whose records are grouped into one row, for example each minute.",
  late: "Rows that came after the window they belong to had been closed: they are in no row. A longer wait for late records takes them in.",
  lag: "Records of its topics that are not read yet, and how far the watermark is behind the clock.",
  quarantine:
    "Records that could not be read, and rows that a sink refused, kept with the reason. They can be replayed or discarded.",
  tag: "A column that tells series apart, such as a city; its name begins with tag_.",
  field: "A column with a value that is charted or summed, such as a count.",
  checkpoint: "Where a dagger has come to, and its open groups, kept on disk: a restart goes on from there.",
} as const;
export type Word = keyof typeof TERMS;
