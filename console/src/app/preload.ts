// Loads the scripts of a service's page while the browser is idle, so that its first opening does not wait for them.

// Time in milliseconds that the first page has for its own requests.
const DELAY = 2000;

/** Loads the scripts once the first page has had time for its own. */
export function preloadLater(): void {
  const preload = () => {
    void import("../services/ServicePage");
    void import("../topology/Topology");
  };
  // Safari has no idle callbacks.
  setTimeout(() => ("requestIdleCallback" in window ? requestIdleCallback(preload) : preload()), DELAY);
}
