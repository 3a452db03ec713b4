// Replaces text that differs between two runs (ids, times, ages, ports), and stops animations.
() => {
  const FIXED = [
    [/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, () => "01a2014d-b80e-708b-8a82-390b6d43041a"],
    [/\b(?=[a-f]*\d)[0-9a-f]{7,64}\b/g, (found) => "4f1c09de7ab85236".repeat(4).slice(0, found.length)],
    [/\bweb-[a-z0-9]{5,10}(-[a-z0-9]{5})?\b/g, (found, pod) => `web-7d9c5b8f64${pod === undefined ? "" : "-x2k9p"}`],
    [/\b127\.0\.0\.1:\d+/g, () => "127.0.0.1:8080"],
    [/\b\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d/g, (found, between) => `2026-06-01${between}12:00:00`],
    [/\b\d\d:\d\d(:\d\d)?(\.\d+)?\b/g, (found) => "12:00:00.000".slice(0, found.length)],
    [/\b\d+[smhd]( \d+[smh])?(?= ago\b)/g, () => "2m"],
    [/^now$/, () => "2m ago"],
    [/\b\d+(\.\d+)? ms\b/g, () => "12 ms"],
    [/\b\d+(\.\d+)? per (day|week)\b/g, () => "2 per week"],
    [/^(under )?\d+s$/, () => "1s"],
  ];
  const fixed = (text) => FIXED.reduce((now, [what, by]) => now.replace(what, by), text);
  const freeze = (node) => {
    // The editor takes a change of its text for typing.
    if (node.parentElement === null || node.parentElement.closest(".cm-editor, script, style") !== null) return;
    const text = fixed(node.data);
    if (text !== node.data) node.data = text;
  };
  if (!("frozen" in window)) {
    window.frozen = new CSSStyleSheet();
    window.frozen.replaceSync("*, *::before, *::after { animation: none !important; transition: none !important; caret-color: transparent !important; }");
    document.adoptedStyleSheets.push(window.frozen);
    // Ages grow each second, also between this and the picture.
    new MutationObserver((changes) => changes.forEach(({ target }) => freeze(target))).observe(document.body, { subtree: true, characterData: true });
  }
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) freeze(node);
  for (const field of document.querySelectorAll("input:not([type=range]), textarea")) {
    const text = fixed(field.value);
    if (text !== field.value) field.value = text;
  }
}
