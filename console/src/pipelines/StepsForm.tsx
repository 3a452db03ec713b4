import { STEP_KINDS, withAt, type GateField } from "./gatekinds";
import type { StepText } from "./definition";
import { begun, Field, RuleForm } from "./RuleForm";

type Props = { readonly steps: readonly StepText[]; readonly onChange: (next: readonly StepText[]) => void };

const AFTER: GateField = { path: "after", title: "After", note: "names of steps, separated by blanks; empty: at once", of: "list" };

/** The steps of a workflow: each begins when those that it names have passed. */
export function StepsForm({ steps, onChange }: Props) {
  const free = (number: number): string => (steps.some(({ name }) => name === `step-${number}`) ? free(number + 1) : `step-${number}`);
  const add = () => onChange([...steps, begun(STEP_KINDS, free(steps.length + 1), "JOB")]);
  return (
    <div className="part">
      {steps.map((step, index) => (
        <RuleForm
          key={index}
          rule={step}
          kinds={STEP_KINDS}
          noun="step"
          // Another kind has other settings, but still its place among the steps.
          onChange={(next) => onChange(steps.with(index, { ...(step["after"] === undefined ? {} : { after: step["after"] }), ...next }))}
          onRemove={() => onChange(steps.toSpliced(index, 1))}
        >
          <Field field={AFTER} value={step["after"]} onChange={(next) => onChange(steps.with(index, withAt(step, "after", next)))} />
        </RuleForm>
      ))}
      <div>
        <button type="button" onClick={add}>
          Add a step
        </button>
      </div>
    </div>
  );
}
