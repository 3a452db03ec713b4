import { useEffect, useRef } from "react";
import { typing } from "../app/keys";
import { useParam } from "./useParam";

// What is typed in one go is asked for once.
const PAUSE = 50;

/** The filter of a page, kept in the address; `/` goes into it. */
export function FilterField({ label }: { readonly label: string }) {
  const [text, change] = useParam("q");
  const field = useRef<HTMLInputElement>(null);
  const waiting = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const settle = (value: string) => {
    clearTimeout(waiting.current);
    waiting.current = setTimeout(() => change(value), PAUSE);
  };
  useEffect(() => () => clearTimeout(waiting.current), []);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "/" || typing(event)) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <input
      ref={field}
      type="search"
      data-page-filter=""
      aria-label={label}
      placeholder={`${label}  /`}
      defaultValue={text}
      onChange={(event) => settle(event.target.value)}
      onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
    />
  );
}
