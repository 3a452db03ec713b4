// Loads the scripts of pages before they are opened, so that their first opening does not wait for them.
import { Topology } from "../services/tabs";
import { preload } from "./pages";

// Time in milliseconds that the first page has for its own requests.
const DELAY = 2000;

/** Loads the scripts of a service's page once the browser is idle, and those of a page when the pointer or the focus is on a link to it. */
export function preloadPages(): void {
  const preloadService = () => {
    preload("/services/:id");
    void Topology.preload();
  };
  // Safari has no idle callbacks.
  setTimeout(() => ("requestIdleCallback" in window ? requestIdleCallback(preloadService) : preloadService()), DELAY);
  const onLink = ({ target }: Event) => {
    const link = target instanceof Element ? target.closest<HTMLAnchorElement>("a[href]") : null;
    if (link?.origin === location.origin) preload(link.pathname);
  };
  document.addEventListener("pointerover", onLink, { passive: true });
  document.addEventListener("focusin", onLink);
}
