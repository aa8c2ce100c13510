import type { OutputColumn } from "../gen/daggers/v1/findings_pb.ts";
import type { Row } from "../gen/daggers/v1/output_pb.ts";
import type { PreviewDone, PreviewProgress } from "../gen/daggers/v1/preview_pb.ts";
import type { DaggerSpec } from "../gen/daggers/v1/spec_pb.ts";
import { minutesBack } from "./preview.ts";
import { left, type Problem, problem } from "./problem.ts";
import { streams } from "./rpc.ts";

/** What one preview has brought so far; the next one takes its place. */
export class PreviewRun {
  now = $state<"not yet" | "running" | "cancelled" | "over">("not yet");
  /** Rows of complete windows, and of partial ones. */
  whole = $state.raw<Row[]>([]);
  parts = $state.raw<Row[]>([]);
  outputs = $state.raw<OutputColumn[]>([]);
  warnings = $state.raw<string[]>([]);
  progress = $state.raw<PreviewProgress | null>(null);
  done = $state.raw<PreviewDone | null>(null);
  wrong = $state.raw<Problem | null>(null);
  #abort = new AbortController();

  /** Read rows of a query, in place of those that were; of the last minutes, or with 0 of as many as it needs. */
  async run(name: string, spec: DaggerSpec, minutes: number, maxRows: number): Promise<void> {
    this.cancel();
    const own = (this.#abort = new AbortController());
    this.whole = this.parts = [];
    this.outputs = [];
    this.warnings = [];
    this.progress = this.done = this.wrong = null;
    this.now = "running";
    try {
      const asked = { name, spec, range: minutesBack(minutes), maxRows };
      for await (const { step } of streams.previewDagger(asked, { signal: own.signal })) {
        if (step.case === "columns") ({ columns: this.outputs, warnings: this.warnings } = step.value);
        else if (step.case === "progress") this.progress = step.value;
        else if (step.case === "done") this.done = step.value;
        else if (step.case === "rows" && step.value.partial) this.parts = [...this.parts, ...step.value.rows];
        else if (step.case === "rows") this.whole = [...this.whole, ...step.value.rows];
      }
      if (own === this.#abort) this.now = "over";
    } catch (error) {
      if (own !== this.#abort) return; // another one has begun
      this.now = left(error) ? "cancelled" : "over";
      if (!left(error)) this.wrong = problem(error);
    }
  }

  cancel(): void {
    this.#abort.abort();
  }
}
