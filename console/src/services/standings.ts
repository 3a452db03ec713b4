// What it means to a person where a commit stands.
import type { CommitStanding } from "../api/generated";
import type { Tone } from "../ui/Status";

type Standing = { readonly tone: Tone; readonly word: string; readonly text: string };

export const STANDINGS: Record<CommitStanding, Standing> = {
  LIVE: { tone: "ok", word: "Live", text: "It runs here." },
  SUPERSEDED: { tone: "idle", word: "Overtaken", text: "A newer one has taken its place." },
  UNCHANGED: { tone: "ok", word: "Nothing to do", text: "It changes nothing that this service reads." },
  HELD: { tone: "warn", word: "Held", text: "Something holds it back." },
  RENDERING: { tone: "busy", word: "Rendering", text: "Its objects are being made." },
  OFFERING: { tone: "busy", word: "Offered", text: "Its agent has not taken it yet." },
  APPLYING: { tone: "busy", word: "Applying", text: "The agent is at it." },
  CONFIRMING: { tone: "warn", word: "Waits for a person", text: "It goes on once somebody confirms." },
  BECOMING_HEALTHY: { tone: "busy", word: "Becoming healthy", text: "It is applied; its objects are not all healthy yet." },
  FAILED: { tone: "bad", word: "Failed", text: "It did not get through." },
};
