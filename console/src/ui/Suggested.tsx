import { useId } from "react";

type Props = {
  readonly value: string;
  /** What fits to what is typed so far; anything may be typed. */
  readonly offered: readonly string[];
  readonly onChange: (next: string) => void;
  /** For whom it stands in no label. */
  readonly label?: string;
  readonly placeholder?: string;
};

/** A text field that offers choices while one types. */
export function Suggested({ value, offered, onChange, label, placeholder }: Props) {
  const list = useId();
  return (
    <>
      <input aria-label={label} placeholder={placeholder} list={list} autoComplete="off" value={value} onChange={(event) => onChange(event.target.value)} />
      <datalist id={list}>
        {offered.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </>
  );
}
