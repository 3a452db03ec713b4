import { Fragment, Suspense } from "react";
import { useOverlay } from "./overlay";

/** Place of the dialog that `openOverlay` shows. */
export function OverlayPlace() {
  const overlay = useOverlay();
  if (overlay === null) return null;
  return (
    <Suspense fallback={null}>
      <Fragment key={overlay.id}>{overlay.content}</Fragment>
    </Suspense>
  );
}
