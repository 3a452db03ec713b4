import { useEffect, useEffectEvent, type RefObject } from "react";

/** Calls `onOutside` at each click outside of an element, while it is open. */
export function useClickOutside(element: RefObject<HTMLElement | null>, isOpen: boolean, onOutside: () => void) {
  const onPointer = useEffectEvent((event: PointerEvent) => {
    if (!element.current?.contains(event.target as Node)) onOutside();
  });
  useEffect(() => {
    if (!isOpen) return undefined;
    addEventListener("pointerdown", onPointer);
    return () => removeEventListener("pointerdown", onPointer);
  }, [isOpen]);
}
