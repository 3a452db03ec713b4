import { duration } from "../text/time";
import { useNow } from "./clock";
import { useConnection } from "./connection";
import "./connection.css";

/** Banner that shows for how long the control plane has not responded. */
export function ConnectionBanner() {
  const connection = useConnection();
  const now = useNow();
  if (connection.up) return null;
  return (
    <div className="connection-lost" role="status">
      The control plane does not respond. Data on this page is {duration(now - connection.since)} old and updates after the reconnect.
    </div>
  );
}
