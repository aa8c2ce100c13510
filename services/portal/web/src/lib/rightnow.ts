import { type Dagger, Phase } from "../gen/daggers/v1/dagger_pb.ts";
import type { Vitals } from "../gen/daggers/v1/vitals_pb.ts";
import { many, ms, zoned } from "./format.ts";
import { slowest, took } from "./freshness.ts";
import { type Tone, tone, trouble, word } from "./phase.ts";
import { ageOf, still } from "./standing.ts";

const OF_TEAM = "TEAM_QUOTA";
const WAITS_FOR_TURN = "WAITS_FOR_TURN";

/** Whether a dagger is right at a time, in one sentence. */
export function rightNow(dagger: Dagger, now: number): { tone: Tone; text: string } {
  const at = ms(dagger.phaseTime);
  const since = at === null ? "" : ` since ${zoned(at, now)}`;
  const state = word(dagger.phase).toLowerCase();
  const is = since ? `it has been ${state}${since}` : `it is ${state}`;
  const heard = ms(dagger.vitals?.heardTime);
  // What a whole team uses is no fault of this one.
  const fault = dagger.vitals?.warnings[0]?.code === OF_TEAM ? null : trouble(dagger);
  const shown = tone(dagger.phase);
  if (dagger.phase === Phase.FAILED || shown === "bad")
    return {
      tone: "bad",
      text: `No: ${fault ? fault.what : `${is}.`}`,
    };
  if (shown === "idle") {
    const starts =
      [Phase.PENDING, Phase.STARTING].includes(dagger.phase) ||
      dagger.vitals?.warnings[0]?.code === WAITS_FOR_TURN;
    if (fault && starts) return { tone: "warn", text: `Not yet: ${fault.what}` };
    return {
      tone: "idle",
      text: `${starts ? "Not yet" : "It writes no rows"}: ${is}.`,
    };
  }
  if (still(heard, now))
    return { tone: "warn", text: `Nobody knows: its driver was heard last ${ageOf(heard!, now)}.` };
  if (fault || shown === "warn")
    return {
      tone: "warn",
      text: `Not quite: ${fault?.what ?? `${is}.`}`,
    };
  return dagger.vitals
    ? doing(dagger.vitals, since)
    : { tone: "good", text: since ? `It has run${since}.` : "It runs." };
}

/** Of a dagger that runs, and of which nobody has said that anything is wrong. */
function doing(vitals: Vitals, since: string): { tone: Tone; text: string } {
  const lost = [
    vitals.recentLateRows ? many(vitals.recentLateRows, "late row") : "",
    vitals.recentQuarantined ? many(vitals.recentQuarantined, "quarantined record") : "",
  ].filter(Boolean);
  if (lost.length)
    return { tone: "warn", text: `Mostly: it runs, with ${lost.join(" and ")} in the last 5 min.` };
  if (!vitals.rows)
    return {
      tone: "idle",
      text: `It has run${since} and has written no rows yet: they come when a window closes.`,
    };
  const worst = slowest(vitals);
  const fresh = worst
    ? `: 95 of 100 rows are in ${worst[0]} within ${took(worst[1])} of the end of their window`
    : "";
  return {
    tone: "good",
    text: `Yes${fresh || `: it has run${since}`}, and nothing was late or quarantined in the last 5 min.`,
  };
}
