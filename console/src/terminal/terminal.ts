// xterm without inline styles: what it would write into style elements goes into adopted sheets.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";

export type Screen = { readonly terminal: Terminal; readonly fit: () => void; readonly end: () => void };

/** Stands for a style element: its text becomes a sheet that the page adopts. */
function adoptingElement(make: (tag: string) => HTMLElement, sheets: CSSStyleSheet[]): HTMLElement {
  const sheet = new CSSStyleSheet();
  sheets.push(sheet);
  document.adoptedStyleSheets.push(sheet);
  const element = make("span");
  element.hidden = true;
  Object.defineProperty(element, "textContent", { set: (text: string) => sheet.replaceSync(text) });
  return element;
}

/** An element whose style attribute goes the way that the page's policy allows: through its CSSOM. */
function styledElement(element: HTMLElement): HTMLElement {
  element.setAttribute = (name: string, value: string) => {
    if (name === "style") element.style.cssText = value;
    else Element.prototype.setAttribute.call(element, name, value);
  };
  return element;
}

/** The document as xterm sees it. */
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

/** The scroll bar's style element is made of the page's own document, while the terminal opens. */
function openAdopting(terminal: Terminal, host: HTMLElement, sheets: CSSStyleSheet[]): void {
  // Elements of another document are taken over where they are put in.
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

/** A terminal in an element, as wide as it. */
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
