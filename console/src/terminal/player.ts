// Plays a recording in a read-only terminal.
import type { Cast } from "../audit/cast";
import { openTerminal } from "./terminal";

// Longest pause between two events, in seconds.
const MAX_PAUSE = 2;

/** Starts the playback; returns a function that stops it. */
export function play(host: HTMLElement, cast: Cast, speed: number): () => void {
  const screen = openTerminal(host, { cols: cast.width, rows: cast.height, fixed: true });
  let timer: ReturnType<typeof setTimeout> | undefined;
  const next = (index: number) => {
    const event = cast.events[index];
    if (event === undefined) return;
    const before = cast.events[index - 1]?.at ?? 0;
    const pause = Math.min(MAX_PAUSE, Math.max(0, event.at - before));
    timer = setTimeout(() => {
      screen.terminal.write(event.text);
      next(index + 1);
    }, (pause * 1000) / speed);
  };
  next(0);
  return () => {
    clearTimeout(timer);
    screen.end();
  };
}
