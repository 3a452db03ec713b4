import { useState } from "react";
import { useNow } from "../live/clock";
import { useConnection } from "../live/connection";
import { duration, exactly } from "../text/time";
import { useMoment } from "./useMoment";

const SPANS: readonly (readonly [string, number])[] = [
  ["hour", 3_600_000],
  ["day", 86_400_000],
  ["week", 604_800_000],
];
const STEPS = 240;

/** Tells that the map follows changes; nothing while the control plane is away. */
function LiveMark() {
  const { up } = useConnection();
  if (!up) return null;
  return (
    <span className="live">
      <span aria-hidden="true">●</span> Live
    </span>
  );
}

/** Slider that shows the map at a point in the past. The URL keeps the time; none: now. */
export function TimeTravel() {
  const [at, go] = useMoment();
  const [span, setSpan] = useState(1);
  const [dragged, drag] = useState<number | null>(null);
  const now = useNow();
  const [, length] = SPANS[span] ?? ["day", 86_400_000];
  const past = at === "" ? 0 : now - new Date(at).getTime();
  const value = dragged ?? STEPS - Math.round((Math.min(past, length) / length) * STEPS);
  const moment = new Date(now - ((STEPS - value) / STEPS) * length);
  const settle = () => {
    if (dragged === null) return;
    go(dragged >= STEPS ? "" : moment.toISOString());
    drag(null);
  };
  const isPast = at !== "" || (dragged !== null && dragged < STEPS);
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
          onChange={(event) => drag(Number(event.target.value))}
          onPointerUp={settle}
          onKeyUp={settle}
          onBlur={settle}
        />
      </label>
      <select aria-label="Time range" value={span} onChange={(event) => setSpan(Number(event.target.value))}>
        {SPANS.map(([name], index) => (
          <option key={name} value={index}>
            last {name}
          </option>
        ))}
      </select>
      {isPast ? (
        <>
          <strong>{exactly((dragged === null ? new Date(at) : moment).toISOString())}</strong>
          <button type="button" onClick={() => go("")}>
            Back to live
          </button>
        </>
      ) : (
        <LiveMark />
      )}
    </div>
  );
}
