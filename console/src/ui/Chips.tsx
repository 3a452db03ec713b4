import { useParam } from "./useParam";
import "./chips.css";

type Props = { readonly label: string; readonly name: string; readonly options: readonly (readonly [string, string])[] };

/** One choice of a few, kept in the address; the first is none. */
export function Chips({ label, name, options }: Props) {
  const [value, change] = useParam(name);
  return (
    <div className="chips" role="group" aria-label={label}>
      {options.map(([key, title]) => (
        <button key={key} type="button" aria-pressed={value === key} onClick={() => change(key)}>
          {title}
        </button>
      ))}
    </div>
  );
}
