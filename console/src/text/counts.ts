/** A number and what it counts, in one or many: `1 service`, `2,736 services`. */
export const counted = (count: number, what: string): string => `${count.toLocaleString()} ${what}${count === 1 ? "" : "s"}`;
