// xterm without inline styles, which the Content Security Policy forbids: uses adopted style sheets.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";

export type Screen = { readonly terminal: Terminal; readonly fit: () => void; readonly end: () => void };

/** Replaces a style element; its text goes into an adopted style sheet. */
function adoptingElement(make: (tag: string) => HTMLElement, sheets: CSSStyleSheet[]): HTMLElement {
  const sheet = new CSSStyleSheet();
  sheets.push(sheet);
  document.adoptedStyleSheets.push(sheet);
  const element = make("span");
  element.hidden = true;
  Object.defineProperty(element, "textContent", {
    set: (text: string) => {
      sheet.replaceSync(text);
    },
  });
  return element;
}

/** Element that sets its style attribute through the CSSOM, which the policy allows. */
function styledElement(element: HTMLElement): HTMLElement {
  element.setAttribute = (name: string, value: string) => {
    if (name === "style") element.style.cssText = value;
    else Element.prototype.setAttribute.call(element, name, value);
  };
  return element;
}

/** Document proxy for xterm. */
function documentFor(sheets: CSSStyleSheet[]): Document {
  return new Proxy(document, {
    get(target, name) {
      if (name === "createElement")
        return (tag: string) => (tag === "style" ? adoptingElement((name) => target.createElement(name), sheets) : styledElement(target.createElement(tag)));
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value as (...given: unknown[]) => unknown).bind(target) : value;
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  });
}

/** Opens the terminal. Its scroll bar creates a style element from the page's document meanwhile. */
function openAdopting(terminal: Terminal, host: HTMLElement, sheets: CSSStyleSheet[]): void {
  // The page adopts elements of another document when they are inserted.
  const other = document.implementation.createHTMLDocument("");
  const make = (tag: string): HTMLElement => other.createElement(tag);
  const value = (tag: string) => (tag === "style" ? adoptingElement(make, sheets) : make(tag));
  Object.defineProperty(document, "createElement", { value, configurable: true });
  try {
    terminal.open(host);
  } finally {
    Reflect.deleteProperty(document, "createElement");
  }
}

/** Terminal that fills an element. */
export function openTerminal(host: HTMLElement, options: { readonly cols?: number; readonly rows?: number; readonly fixed?: boolean } = {}): Screen {
  const sheets: CSSStyleSheet[] = [];
  const { fixed = false, ...size } = options;
  const terminal = new Terminal({
    ...size,
    documentOverride: documentFor(sheets),
    disableStdin: fixed,
    screenReaderMode: true,
    fontFamily: getComputedStyle(host).getPropertyValue("--mono"),
    fontSize: 13,
    theme: { background: "#0e1216", foreground: "#e6eaee", cursor: "#74b6ff" },
  });
  const addon = new FitAddon();
  terminal.loadAddon(addon);
  openAdopting(terminal, host, sheets);
  const observer = new ResizeObserver(() => !fixed && addon.fit());
  observer.observe(host);
  const end = () => {
    observer.disconnect();
    terminal.dispose();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.includes(sheet));
  };
  return { terminal, fit: () => addon.fit(), end };
}
