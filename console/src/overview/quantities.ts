// Quantities of Kubernetes.

const FACTORS: Readonly<Record<string, number>> = {
  "": 1, n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50,
};

/** Number of a quantity such as `250m` or `64Mi`; 0 for other text. */
export function quantity(text: string | undefined): number {
  const [, number = "", unit = ""] = /^([+-]?[\d.]+(?:e[+-]?\d+)?)([a-zA-Z]*)$/.exec(text ?? "") ?? [];
  const factor = FACTORS[unit];
  return number === "" || factor === undefined ? 0 : Number(number) * factor;
}

/** Cores such as `250m` or `1.5`. */
export const cores = (value: number): string => (value < 1 ? `${Math.round(value * 1000)}m` : `${Math.round(value * 100) / 100}`);

/** Bytes such as `64 MiB`. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(value) / 10));
  const size = value / 2 ** (10 * power);
  return `${size < 10 ? Math.round(size * 10) / 10 : Math.round(size)} ${units[power] ?? ""}`;
}
