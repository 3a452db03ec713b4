// A cluster counts as offline after 60 s; its agent sends a message at least every 15 s.

/** Milliseconds. */
export const OFFLINE_AFTER = 60_000;

/** Whether the agent is offline, so that its data may be out of date. */
export const isOffline = (pingedAt: string | null, now: number): boolean =>
  pingedAt === null || now - new Date(pingedAt).getTime() > OFFLINE_AFTER;
