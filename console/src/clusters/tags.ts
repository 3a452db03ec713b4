/** Parses tags such as `region=eu stage=prod`. */
export function tagsOf(text: string): { readonly name: string; readonly value: string }[] {
  return text
    .split(/[\s,]+/)
    .filter((word) => word !== "")
    .map((word) => {
      const [name = "", ...rest] = word.split("=");
      return { name, value: rest.join("=") };
    });
}
