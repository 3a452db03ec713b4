import { useEffect, useState, type RefObject } from "react";
import { useLocation } from "wouter";
import { useInboxTotal } from "../inbox/useInboxTotal";
import { isAt, PAGES } from "./pages";

/** Text that a screen reader reads, without decoration. */
export function spokenText(node: Node): string {
  if (node instanceof Element && node.getAttribute("aria-hidden") === "true") return "";
  if (node.nodeType === Node.TEXT_NODE) return node.textContent ?? "";
  return [...node.childNodes].map(spokenText).join(" ").replace(/\s+/g, " ").trim();
}

/** Heading of the page and the state beside it, followed through all changes of the page. */
function useHeading(main: RefObject<HTMLElement | null>): string {
  const [heading, setHeading] = useState("");
  useEffect(() => {
    const read = () => {
      const found = main.current?.querySelector("h1") ?? null;
      // A page that is still loading has no heading yet.
      if (found !== null) setHeading(spokenText(found));
    };
    const observer = new MutationObserver(read);
    if (main.current !== null) observer.observe(main.current, { subtree: true, childList: true, characterData: true });
    read();
    return () => observer.disconnect();
  }, [main]);
  return heading;
}

/** Announces another page, or another state of its subject, to screen readers, and names both in the title of the window. */
export function PageAnnouncer({ main }: { readonly main: RefObject<HTMLElement | null> }) {
  const [where] = useLocation();
  const total = useInboxTotal();
  const heading = useHeading(main);
  const section = PAGES.find(({ path, nav }) => nav !== undefined && isAt(where, path))?.nav?.title;
  useEffect(() => {
    const names = [...new Set([heading, section, "Towline"])].filter((name) => name !== undefined && name !== "");
    document.title = `${total === "" ? "" : `(${total}) `}${names.join(" · ")}`;
  }, [heading, section, total]);
  return (
    <p className="hidden-text" aria-live="polite">
      {heading}
    </p>
  );
}
