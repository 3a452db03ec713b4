import { ChevronDown } from "lucide-react";
import { useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { useClickOutside } from "./useClickOutside";
import "./menu.css";

export type MenuItem = {
  readonly title: string;
  /** Reason why the item is disabled; empty: it is enabled. */
  readonly lack?: string;
  readonly isDangerous?: boolean;
  readonly onSelect: () => void;
};

type Props = {
  readonly title: ReactNode;
  /** Name for screen readers, if the title is a symbol. */
  readonly label?: string;
  /** Null: they are being read. */
  readonly items: readonly MenuItem[] | null;
  readonly onOpen?: () => void;
};

const STEPS: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1 };

/** Button that opens a list of actions. */
export function Menu({ title, label, items, onOpen }: Props) {
  const [isOpen, setOpen] = useState(false);
  const holder = useRef<HTMLSpanElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  const isReady = items !== null;
  useClickOutside(holder, isOpen, () => setOpen(false));
  useEffect(() => {
    if (isOpen && isReady) holder.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
  }, [isOpen, isReady]);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  const onKey = (event: KeyboardEvent) => {
    const step = STEPS[event.key] ?? 0;
    if (event.key === "Escape") {
      close();
      event.stopPropagation();
    } else if (event.key === "Tab") setOpen(false);
    else if (step !== 0) {
      const entries = [...(holder.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
      const at = entries.findIndex((entry) => entry === document.activeElement);
      entries[(at + step + entries.length) % entries.length]?.focus();
    } else return;
    if (event.key !== "Tab") event.preventDefault();
  };
  return (
    <span className="menu-holder" ref={holder} onKeyDown={isOpen ? onKey : undefined}>
      <button
        ref={button}
        type="button"
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-label={label}
        onClick={() => {
          if (!isOpen) onOpen?.();
          setOpen(!isOpen);
        }}
      >
        {title} <ChevronDown size={14} aria-hidden="true" />
      </button>
      {isOpen && (
        <div role="menu" className="menu-list" aria-label={label ?? (typeof title === "string" ? title : undefined)} aria-busy={!isReady}>
          {items === null && <p className="quiet menu-note">Checking your permissions…</p>}
          {items?.length === 0 && <p className="quiet menu-note">No actions for this state</p>}
          {items?.map(({ title: name, lack = "", isDangerous = false, onSelect }, index) => (
            <button
              key={name}
              type="button"
              role="menuitem"
              tabIndex={-1}
              className={isDangerous ? "plain danger-item" : "plain"}
              aria-disabled={lack !== ""}
              aria-describedby={lack === "" ? undefined : `${id}-${index}`}
              onClick={() => {
                if (lack !== "") return;
                close();
                onSelect();
              }}
            >
              <span>{name}</span>
              {lack !== "" && <small id={`${id}-${index}`}>{lack}</small>}
            </button>
          ))}
        </div>
      )}
    </span>
  );
}
