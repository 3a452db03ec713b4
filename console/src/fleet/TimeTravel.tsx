import { useState } from "react";
import { useNow } from "../live/clock";
import { duration, exactly } from "../text/time";
import { useMoment } from "./useMoment";

const SPANS: readonly (readonly [string, number])[] = [
  ["hour", 3_600_000],
  ["day", 86_400_000],
  ["week", 604_800_000],
];
const STEPS = 240;

/** Moves the map to a moment of the past. The moment stands in the address; none is now. */
export function TimeTravel() {
  const [at, go] = useMoment();
  const [span, setSpan] = useState(1);
  const [held, hold] = useState<number | null>(null);
  const now = useNow();
  const [, length] = SPANS[span] ?? ["day", 86_400_000];
  const past = at === "" ? 0 : now - new Date(at).getTime();
  const value = held ?? STEPS - Math.round((Math.min(past, length) / length) * STEPS);
  const moment = new Date(now - ((STEPS - value) / STEPS) * length);
  const settle = () => {
    if (held === null) return;
    go(held >= STEPS ? "" : moment.toISOString());
    hold(null);
  };
  const isPast = at !== "" || (held !== null && held < STEPS);
  return (
    <div className={isPast ? "travel past" : "travel"}>
      <label>
        <span className="hidden-text">Time</span>
        <input
          type="range"
          min={0}
          max={STEPS}
          value={value}
          aria-valuetext={isPast ? `${duration(now - moment.getTime())} ago` : "now"}
          onChange={(event) => hold(Number(event.target.value))}
          onPointerUp={settle}
          onKeyUp={settle}
          onBlur={settle}
        />
      </label>
      <select aria-label="How far back" value={span} onChange={(event) => setSpan(Number(event.target.value))}>
        {SPANS.map(([name], index) => (
          <option key={name} value={index}>
            last {name}
          </option>
        ))}
      </select>
      {isPast ? (
        <>
          <strong>{exactly((held === null ? new Date(at) : moment).toISOString())}</strong>
          <button type="button" onClick={() => go("")}>
            Back to now
          </button>
        </>
      ) : (
        <span className="live">
          <span aria-hidden="true">●</span> live
        </span>
      )}
    </div>
  );
}
