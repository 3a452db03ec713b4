import type { ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { KeyHelp } from "./KeyHelp";
import { PAGES } from "./pages";
import { ReachBanner } from "../live/ReachBanner";
import { useJumpKeys } from "./keys";
import { useTheme } from "./theme";
import "./shell.css";

function Navigation() {
  const [where] = useLocation();
  const here = (path: string) => (path === "/" ? where === "/" : where.startsWith(path));
  return (
    <nav aria-label="Main">
      {PAGES.map(({ path, nav }) =>
        nav === undefined ? null : (
          <Link key={path} href={path} aria-current={here(path) ? "page" : undefined}>
            {nav.title}
          </Link>
        ),
      )}
    </nav>
  );
}

function ThemeButton() {
  const { theme, next } = useTheme();
  return (
    <button type="button" onClick={next} title="Light, dark, or as the system says">
      {theme === "system" ? "◐" : theme === "light" ? "○" : "●"}
      <span className="hidden-text">Theme: {theme}</span>
    </button>
  );
}

/** What stays while pages change: where one is, what can be reached, whether all this is true now. */
export function Shell({ children }: { readonly children: ReactNode }) {
  useJumpKeys();
  return (
    <div className="shell">
      <a className="skip" href="#main">
        To the content
      </a>
      <header>
        <Link href="/" className="brand">
          <img src="/favicon.svg" alt="" width="20" height="20" />
          Towline
        </Link>
        <Navigation />
        <span className="fill" />
        <ThemeButton />
        <KeyHelp />
      </header>
      <ReachBanner />
      <main id="main">{children}</main>
    </div>
  );
}
