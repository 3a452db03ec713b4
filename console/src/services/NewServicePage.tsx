export function NewServicePage() { return null; }
