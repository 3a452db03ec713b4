// Colours of the active theme for a canvas, which does not support functions such as `light-dark()`.

/** Plain colour of a custom property, such as `--ink`. */
export function colourOf(element: Element, name: string): string {
  const probe = document.createElement("span");
  probe.style.color = getComputedStyle(element).getPropertyValue(name);
  element.append(probe);
  const plain = getComputedStyle(probe).color;
  probe.remove();
  return plain;
}
