import { ChevronDown } from "lucide-react";
import { useRef, useState, type ReactNode } from "react";
import { useClickOutside } from "./useClickOutside";
import "./menu.css";

/** Button that opens a panel. Escape and a click outside close it. */
export function Popover({ title, children }: { readonly title: string; readonly children: () => ReactNode }) {
  const [isOpen, setOpen] = useState(false);
  const holder = useRef<HTMLSpanElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useClickOutside(holder, isOpen, () => setOpen(false));
  return (
    <span
      className="menu-holder"
      ref={holder}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !isOpen) return;
        event.stopPropagation();
        setOpen(false);
        button.current?.focus();
      }}
    >
      <button ref={button} type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {title} <ChevronDown size={14} aria-hidden="true" />
      </button>
      {isOpen && (
        <div className="menu-list popover" role="group" aria-label={title}>
          {children()}
        </div>
      )}
    </span>
  );
}
