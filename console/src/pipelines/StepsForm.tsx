import { STEP_KINDS } from "../api/kinds";
import { withAt, type GateField } from "./gatekinds";
import type { StepText } from "./definition";
import { newRule, Field, RuleForm } from "./RuleForm";

type Props = { readonly steps: readonly StepText[]; readonly onChange: (next: readonly StepText[]) => void };

const AFTER: GateField = { path: "after", title: "After", note: "names of steps, separated by spaces; empty: start immediately", of: "list" };

/** Steps of a workflow. A step starts when the steps in `after` have passed. */
export function StepsForm({ steps, onChange }: Props) {
  const free = (number: number): string => (steps.some(({ name }) => name === `step-${number}`) ? free(number + 1) : `step-${number}`);
  const add = () => onChange([...steps, newRule(STEP_KINDS, free(steps.length + 1), "JOB")]);
  return (
    <div className="part">
      {steps.map((step, index) => (
        <RuleForm
          key={index}
          rule={step}
          kinds={STEP_KINDS}
          noun="step"
          // A new kind resets the settings but keeps the order of the steps.
          onChange={(next) => onChange(steps.with(index, { ...(step["after"] === undefined ? {} : { after: step["after"] }), ...next }))}
          onRemove={() => onChange(steps.toSpliced(index, 1))}
        >
          <Field field={AFTER} value={step["after"]} onChange={(next) => onChange(steps.with(index, withAt(step, "after", next)))} />
        </RuleForm>
      ))}
      <div>
        <button type="button" onClick={add}>
          Add step
        </button>
      </div>
    </div>
  );
}
