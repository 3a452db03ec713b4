// When a cluster counts as not heard of: its agent says something at least every 15 s.

/** Milliseconds. */
export const AWAY = 60_000;

/** Whether what is known of a cluster may be old. */
export const isAway = (pingedAt: string | null, now: number): boolean =>
  pingedAt === null || now - new Date(pingedAt).getTime() > AWAY;
