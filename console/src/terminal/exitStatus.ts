// Exit status of an exec session, from its error channel.

/** Message of the Kubernetes Status that ends a session. */
export function exitMessage(text: string): string {
  try {
    const { status, message } = JSON.parse(text) as { readonly status?: unknown; readonly message?: unknown };
    if (status === "Success") return "Shell session ended.";
    if (typeof message === "string") return message;
  } catch {
    // Not a Status; return the text.
  }
  return text;
}
