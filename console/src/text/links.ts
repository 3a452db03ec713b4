// Turns untrusted strings into links; no other code may.

const SAFE = new Set(["http:", "https:"]);

/** URL if its scheme is HTTP or HTTPS, else null: `javascript:` and `data:` stay text. */
export function safeUrl(text: string): string | null {
  try {
    const url = new URL(text.trim());
    return SAFE.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
