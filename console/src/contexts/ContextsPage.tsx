export function ContextsPage() { return null; }
