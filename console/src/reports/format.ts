// Formats delivery metrics.
import { duration } from "../text/time";

export const seconds = (value: number | null): string => (value === null ? "–" : value < 1 ? "under 1s" : duration(value * 1000));
/** Formats a rate per day, or per week below 0.5 a day. */
export const rate = (perDay: number): string => (perDay === 0 || perDay >= 0.5 ? `${Math.round(perDay * 10) / 10} per day` : `${Math.round(perDay * 70) / 10} per week`);
export const percent = (value: number | null): string => (value === null ? "–" : `${Math.round(value * 1000) / 10}%`);
