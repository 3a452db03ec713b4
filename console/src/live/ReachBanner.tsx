import { duration } from "../text/time";
import { useNow } from "./clock";
import { useReach } from "./reach";
import "./reach.css";

/** Says that the control plane does not answer, and how old the picture is. */
export function ReachBanner() {
  const reach = useReach();
  const now = useNow();
  if (reach.up) return null;
  return (
    <div className="reach" role="status">
      The control plane does not answer. What you see is {duration(now - reach.since)} old; it will
      catch up by itself.
    </div>
  );
}
