// The only way a string from outside becomes a link.

const SAFE = new Set(["http:", "https:"]);

/** The address if a browser may go there, else null: `javascript:`, `data:` and friends are text. */
export function safeUrl(text: string): string | null {
  try {
    const url = new URL(text.trim());
    return SAFE.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
