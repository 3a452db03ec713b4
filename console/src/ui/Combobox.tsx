import { useId } from "react";

type Props = {
  readonly value: string;
  /** Suggestions for the typed text; other text is allowed. */
  readonly offered: readonly string[];
  readonly onChange: (next: string) => void;
  /** Accessible name if the field is not inside a label. */
  readonly label?: string;
  readonly placeholder?: string;
};

/** Text field with suggestions. */
export function Combobox({ value, offered, onChange, label, placeholder }: Props) {
  const list = useId();
  return (
    <>
      <input aria-label={label} placeholder={placeholder} list={list} autoComplete="off" value={value} onChange={(event) => onChange(event.target.value)} />
      <datalist id={list}>
        {offered.map((option) => (
          <option key={option} value={option} />
        ))}
      </datalist>
    </>
  );
}
