import { GATE_KINDS } from "../api/kinds";
import { stepsOf, type GateText } from "./definition";
import { RuleForm } from "./RuleForm";
import { StepsForm } from "./StepsForm";

type Props = { readonly gate: GateText; readonly onChange: (next: GateText) => void; readonly onRemove: () => void };

/** Form of a gate; a workflow also has its steps. */
export function GateForm({ gate, onChange, onRemove }: Props) {
  return (
    <RuleForm rule={gate} kinds={GATE_KINDS} noun="gate" onChange={onChange} onRemove={onRemove}>
      {gate.type === "WORKFLOW" && <StepsForm steps={stepsOf(gate)} onChange={(steps) => onChange({ ...gate, steps })} />}
    </RuleForm>
  );
}
