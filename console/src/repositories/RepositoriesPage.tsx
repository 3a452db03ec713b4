export function RepositoriesPage() { return null; }
