import { useParam } from "./useParam";
import "./chips.css";

type Props = { readonly label: string; readonly name: string; readonly options: readonly (readonly [string, string])[] };

/** Group of exclusive options, kept in the URL; the first one means no filter. */
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
