/** Something that the palette leads to. */
export type Entry = { readonly kind: string; readonly title: string; readonly path: string };
