import { useEffect, useRef } from "react";
import { useParam } from "./useParam";
import { useSlash } from "./useSlash";

// What is typed in one go is asked for once.
const PAUSE = 50;

type Props = {
  readonly label: string;
  /** Of the parameter; `/` goes into the field of `q`. */
  readonly name?: string;
};

/** A filter of a page, kept in the address. */
export function FilterField({ label, name = "q" }: Props) {
  const [text, change] = useParam(name);
  const isMain = name === "q";
  const field = useRef<HTMLInputElement>(null);
  const waiting = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const told = useRef(text);
  const settle = (value: string) => {
    told.current = value;
    clearTimeout(waiting.current);
    waiting.current = setTimeout(() => change(value), PAUSE);
  };
  useEffect(() => () => clearTimeout(waiting.current), []);
  // The address changes by the way back, or a link, too; what is being typed is only on its way there.
  useEffect(() => {
    if (field.current === null || text === told.current) return;
    told.current = text;
    field.current.value = text;
  }, [text]);
  useSlash(field, isMain);
  return (
    <input
      ref={field}
      type="search"
      data-page-filter={isMain ? "" : undefined}
      aria-label={label}
      placeholder={isMain ? `${label}  /` : label}
      defaultValue={text}
      onChange={(event) => settle(event.target.value)}
      onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
    />
  );
}
