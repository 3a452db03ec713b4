import { useNow } from "../live/clock";
import { duration, exactly } from "../text/time";
import "./age.css";

type Props = {
  /** RFC 3339; null: never. */
  readonly at: string | null;
  /** Age in milliseconds from which the value is shown as stale. */
  readonly staleAfter?: number;
  readonly never?: string;
};

/** Live age of a time, such as `5m ago`. */
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
