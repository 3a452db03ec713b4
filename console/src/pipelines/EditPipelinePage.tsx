export function EditPipelinePage() { return null; }
