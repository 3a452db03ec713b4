/** Number with its noun in singular or plural: `1 service`, `2,736 services`. */
export const counted = (count: number, noun: string): string => `${count.toLocaleString()} ${noun}${count === 1 ? "" : "s"}`;
