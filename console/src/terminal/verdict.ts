// The last word of an exec, on its error channel.

/** How a session ended, in the words of its Status. */
export function verdictOf(text: string): string {
  try {
    const { status, message } = JSON.parse(text) as { readonly status?: unknown; readonly message?: unknown };
    if (status === "Success") return "The shell has ended.";
    if (typeof message === "string") return message;
  } catch {
    // Not a Status: the text itself is the reason.
  }
  return text;
}
