import { Menu, Monitor, Moon, Sun } from "lucide-react";
import { useRef, useState, type ReactNode } from "react";
import { useQuery } from "urql";
import { Link, useLocation } from "wouter";
import { MeDocument } from "../api/generated";
import { KeyHelp } from "./KeyHelp";
import { PageAnnouncer } from "./PageAnnouncer";
import { INBOX, isAt, PAGES, type Group } from "./pages";
import { useInboxTotal } from "../inbox/useInboxTotal";
import { Palette } from "../search/Palette";
import { ConnectionBanner } from "../live/ConnectionBanner";
import { OverlayPlace } from "../ui/OverlayPlace";
import { Toasts } from "../ui/Toasts";
import { useJumpKeys } from "./keys";
import { useTheme } from "./theme";
import "./shell.css";

const GROUPS: readonly (readonly [Group, string])[] = [
  ["operate", "Operate"],
  ["configure", "Configure"],
  ["insights", "Insights"],
  ["administer", "Administer"],
];

function Count({ total }: { readonly total: string }) {
  if (total === "") return null;
  return (
    <span className="nav-count">
      {total}
      <span className="hidden-text"> waiting</span>
    </span>
  );
}

function Navigation({ onGo }: { readonly onGo: () => void }) {
  const [where] = useLocation();
  const total = useInboxTotal();
  return (
    <nav aria-label="Main">
      {GROUPS.map(([group, title]) => (
        <div key={group} className="nav-group">
          <p>{title}</p>
          {PAGES.map(({ path, nav }) =>
            nav?.group === group ? (
              <Link key={path} href={path} aria-current={isAt(where, path) ? "page" : undefined} onClick={onGo}>
                <nav.icon size={15} aria-hidden="true" />
                <span className="fill">{nav.title}</span>
                {path === INBOX && <Count total={total} />}
                <kbd aria-hidden="true">g {nav.key}</kbd>
              </Link>
            ) : null,
          )}
        </div>
      ))}
    </nav>
  );
}

const THEME_ICONS = { light: Sun, dark: Moon, system: Monitor };

function ThemeButton() {
  const { theme, next } = useTheme();
  const Icon = THEME_ICONS[theme];
  return (
    <button type="button" className="plain" onClick={next} title={`Theme: ${theme}. Options: light, dark, system`}>
      <Icon size={15} aria-hidden="true" />
      <span className="hidden-text">Theme: {theme}</span>
    </button>
  );
}

function CurrentUser() {
  const [{ data }] = useQuery({ query: MeDocument, requestPolicy: "cache-first" });
  const me = data?.me;
  if (me === undefined) return null;
  return (
    <Link href="/access" className="who" title={me.email}>
      <span aria-hidden="true" className="initial">
        {(me.name || me.email).slice(0, 1).toUpperCase()}
      </span>
      <span>{me.name || me.email}</span>
    </Link>
  );
}

/** Frame around all pages: navigation, search and connection banner. */
export function Shell({ children }: { readonly children: ReactNode }) {
  const [open, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  useJumpKeys();
  return (
    <div className={open ? "shell open" : "shell"}>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <aside>
        <div className="aside-head">
          <Link href="/" className="brand">
            <img src="/favicon.svg" alt="" width="22" height="22" />
            Towline
          </Link>
          <button type="button" className="plain menu" aria-expanded={open} onClick={() => setOpen(!open)}>
            <Menu size={18} aria-hidden="true" />
            <span className="hidden-text"> Menu</span>
          </button>
        </div>
        <Palette />
        <Navigation onGo={() => setOpen(false)} />
        <div className="aside-foot">
          <CurrentUser />
          <ThemeButton />
          <KeyHelp />
        </div>
      </aside>
      <div className="content">
        <ConnectionBanner />
        <PageAnnouncer main={main} />
        <main id="main" tabIndex={-1} ref={main}>
          {children}
        </main>
      </div>
      <OverlayPlace />
      <Toasts />
    </div>
  );
}
