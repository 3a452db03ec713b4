// CodeMirror in a shadow root, where it uses adopted style sheets instead of inline styles.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { foldGutter, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { MergeView, unifiedMergeView } from "@codemirror/merge";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

export type Editor = { readonly set: (text: string) => void; readonly end: () => void };

const theme = EditorView.theme({
  "&": { fontSize: "12px", maxHeight: "72vh", backgroundColor: "var(--surface)", color: "var(--ink)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "18px" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--quiet)", border: "0" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "transparent" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-merge-a .cm-changedLine": { backgroundColor: "var(--bad-tint) !important" },
  ".cm-changedLine": { backgroundColor: "var(--ok-tint) !important" },
  ".cm-deletedChunk": { backgroundColor: "var(--bad-tint) !important" },
  ".cm-changedText": { background: "none !important" },
  ".cm-deletedText": { background: "none !important" },
  ".cm-collapsedLines": { background: "var(--raised) !important", color: "var(--quiet)" },
  "&.cm-merge-b .cm-changedText": { background: "none" },
});

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--ok-text)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--warn-text)" },
  { tag: tags.comment, color: "var(--quiet)" },
  { tag: tags.invalid, color: "var(--bad-text)" },
]);

function common(label: string, fixed: boolean): Extension {
  return [
    lineNumbers(),
    foldGutter(),
    yaml(),
    syntaxHighlighting(colours),
    theme,
    EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
    fixed ? [EditorState.readOnly.of(true), EditorView.editable.of(false)] : [history(), keymap.of([...defaultKeymap, ...historyKeymap])],
  ];
}

/** Empty shadow root of an element. */
function emptyRoot(host: HTMLElement): ShadowRoot {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  root.replaceChildren();
  return root;
}

function open(host: HTMLElement, doc: string, extensions: Extension): EditorView {
  const root = emptyRoot(host);
  return new EditorView({ parent: root, root, state: EditorState.create({ doc, extensions }) });
}

/** Opens an editor in an element; without `onChange` it is read-only. */
export function openEditor(host: HTMLElement, doc: string, label: string, onChange?: (text: string) => void): Editor {
  const listener = EditorView.updateListener.of((update) => {
    if (update.docChanged) onChange?.(update.state.doc.toString());
  });
  const view = open(host, doc, [common(label, onChange === undefined), listener]);
  const set = (text: string) => {
    if (view.state.doc.toString() === text) return;
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
  };
  return { set, end: () => view.destroy() };
}

/** Opens a diff of two texts with unchanged parts folded. */
export function openDiff(host: HTMLElement, before: string, after: string, label: string): Editor {
  const merge = unifiedMergeView({ original: before, mergeControls: false, gutter: true, collapseUnchanged: { margin: 3, minSize: 6 } });
  const view = open(host, after, [common(label, true), merge]);
  return { set: () => {}, end: () => view.destroy() };
}

/** Opens a diff of two texts side by side with unchanged parts folded. */
export function openSplitDiff(host: HTMLElement, before: string, after: string, label: string): Editor {
  const root = emptyRoot(host);
  const side = (doc: string, title: string) => ({ doc, extensions: [common(`${label}: ${title}`, true), EditorView.lineWrapping] });
  const view = new MergeView({ parent: root, root, a: side(before, "before"), b: side(after, "after"), collapseUnchanged: { margin: 3, minSize: 6 } });
  return { set: () => {}, end: () => view.destroy() };
}
