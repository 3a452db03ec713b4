export function ObjectPage() { return null; }
