import { useEffect, useId, useRef } from "react";
import { useParam } from "./useParam";
import { useSlash } from "./useSlash";

// Least time between two queries, in milliseconds, so that fast typing sends few. The first one has no delay.
const PAUSE = 50;

type Props = {
  readonly label: string;
  /** URL parameter; `/` focuses the field of `q`. */
  readonly name?: string;
  /** Completions of the text. */
  readonly offered?: readonly string[];
};

/** Text filter, kept in the URL. */
export function FilterField({ label, name = "q", offered = [] }: Props) {
  const [text, change] = useParam(name);
  const list = useId();
  const isMain = name === "q";
  const field = useRef<HTMLInputElement>(null);
  const last = useRef(-PAUSE);
  const waiting = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const sent = useRef(text);
  const settle = (value: string) => {
    sent.current = value;
    clearTimeout(waiting.current);
    const send = () => {
      last.current = performance.now();
      change(value);
    };
    const left = last.current + PAUSE - performance.now();
    if (left <= 0) send();
    else waiting.current = setTimeout(send, left);
  };
  useEffect(() => () => clearTimeout(waiting.current), []);
  // The back button and links change the URL too; typed text reaches it only after the delay.
  useEffect(() => {
    if (field.current === null || text === sent.current) return;
    sent.current = text;
    field.current.value = text;
  }, [text]);
  useSlash(field, isMain);
  return (
    <>
      <input
        list={offered.length > 0 ? list : undefined}
        ref={field}
        type="search"
        data-page-filter={isMain ? "" : undefined}
        aria-label={label}
        placeholder={isMain ? `${label}  /` : label}
        defaultValue={text}
        onChange={(event) => settle(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
      />
      {offered.length > 0 && (
        <datalist id={list}>
          {offered.map((text) => (
            <option key={text} value={text} />
          ))}
        </datalist>
      )}
    </>
  );
}
