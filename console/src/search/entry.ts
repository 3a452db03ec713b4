/** Entry of the command palette. */
export type Entry = { readonly kind: string; readonly title: string; readonly path: string };
