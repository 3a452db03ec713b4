import { useNow } from "../live/clock";
import { duration, exactly } from "../text/time";
import "./age.css";

type Props = {
  /** RFC 3339; null: never. */
  readonly at: string | null;
  /** From this age on, in milliseconds, it is shown as stale. */
  readonly staleAfter?: number;
  readonly never?: string;
};

/** How long ago something was, kept true while it is on the screen. */
export function Age({ at, staleAfter = Number.POSITIVE_INFINITY, never = "never" }: Props) {
  const now = useNow();
  if (at === null) return <span className="age stale">{never}</span>;
  const age = now - new Date(at).getTime();
  return (
    <time className={age >= staleAfter ? "age stale" : "age"} dateTime={at} title={exactly(at)}>
      {age < 1000 ? "now" : `${duration(age)} ago`}
    </time>
  );
}
