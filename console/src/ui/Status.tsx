import type { State } from "./states";
import "./status.css";

type Props = {
  readonly state: State;
  /** Text after the label, such as the reason of a pause. */
  readonly detail?: string;
  readonly pill?: boolean;
};

/** Shows a state by shape, colour and label, so that nobody depends on the colour. */
export function Status({ state: { label, tone, shape }, detail = "", pill = false }: Props) {
  return (
    <span className={`status ${tone}${pill ? " pill" : ""}`}>
      <span aria-hidden="true">{shape}</span> {detail === "" ? label : `${label}: ${detail}`}
    </span>
  );
}
